// The daemon's part of an update: answers an offer, fetches and unpacks the package beside the running version, and hands
// over to the updater process. Reports every end as an event. Nothing of the running version changes before the switch.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  createReadStream,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { VERSION } from '@berth/shared'
import type { AgentPackage } from '@berth/shared/release'
import { AgentUpdatedSchema, type UpdateAgent } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import type { Clock } from '../clock.ts'
import type { Journal } from '../journal/journal.ts'
import { UPDATES } from '../limits/maintenance.ts'
import { describeError, type Log } from '../log.ts'
import { syncFolder } from '../machine/atomic-files.ts'
import { inGigabytes, measureDiskSpace } from '../machine/disk-space.ts'
import { runProgram, SYSTEM_PATH } from '../machine/process/programs.ts'
import type { AgentSettings } from '../settings.ts'
import { answerOffer } from './offer.ts'
import { chooseSlot, dropUnusedSlots, findSlots, readRelease, type Slots } from './slots.ts'
import { readUpdate, type UpdateState, writeUpdate } from './state.ts'
import { isWatched } from './watch.ts'

/** What an offer's session gives: its control plane's version, and the package's bytes from an offset on. */
export interface Offerer {
  controlPlane: string
  fetch: (request: {
    updateId: string
    platform: string
    offset: number
  }) => AsyncIterable<Uint8Array>
}

interface UpdaterOptions {
  settings: AgentSettings
  /** The command that starts this program, e.g. [node, main.cjs]. */
  program: readonly string[]
  journal: Journal
  clock: Clock
  log: Log
}

/** The control plane did nothing wrong, and neither did the package: the next session tries again. */
class TryAgain extends Error {}

export const platform = `${process.platform}-${process.arch}`

export class AgentUpdates {
  readonly #o: UpdaterOptions
  readonly #slots: Slots | undefined
  #timer: NodeJS.Timeout | undefined
  #isBusy = false

  constructor(options: UpdaterOptions) {
    this.#o = options
    this.#slots = findSlots(options.program.at(-1) ?? '')
  }

  /** Whether this agent can update itself: it was installed from a release with a key. */
  get isPossible(): boolean {
    return this.#slots !== undefined && readRelease(this.#slots) !== undefined
  }

  /** Continues an update whose updater was killed, and clears up after the last one. */
  open(): void {
    this.#look()
    const slots = this.#slots
    if (!slots || readUpdate(this.#o.settings)?.phase === 'switching') return
    for (const name of readdirSync(slots.root).filter((one) => /^\.(new|download)-/.test(one))) {
      rmSync(join(slots.root, name), { recursive: true, force: true })
    }
    this.#drop(slots)
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #drop(slots: Slots): void {
    dropUnusedSlots(slots).then(
      (names) => names.length > 0 && this.#o.log.info({ versions: names }, 'old versions removed'),
      (error: unknown) => this.#o.log.warn(describeError(error), 'old versions stay'),
    )
  }

  /** The updater's verdict becomes an event; an updater that died is started again. */
  #look(): void {
    const { settings, log } = this.#o
    const state = readUpdate(settings)
    clearTimeout(this.#timer)
    if (!state || state.phase === 'reported') return
    if (state.phase === 'switching') {
      this.#timer = setTimeout(() => this.#look(), UPDATES.verdictMs).unref()
      if (this.#slots && !this.#isBusy && !isWatched(settings)) this.#startUpdater(this.#slots)
      return
    }
    this.#report(state)
    log.info({ version: VERSION, kept: state.phase === 'kept' }, 'the update has ended')
    if (this.#slots) this.#drop(this.#slots)
  }

  #report(state: UpdateState): void {
    const { journal, clock, settings } = this.#o
    const value = create(AgentUpdatedSchema, {
      updateId: state.updateId,
      fromVersion: state.from.version,
      toVersion: state.to.version,
      kept: state.phase === 'kept',
      message: state.message.slice(0, 1_000),
    })
    journal.transact(() =>
      journal.outbox.append({
        attemptId: '',
        fence: 0n,
        atMs: clock.now(),
        body: { case: 'updated', value },
      }),
    )
    // a crash in between repeats the event, which the control plane applies once
    writeUpdate(settings, { ...state, phase: 'reported' })
  }

  /** The same offer comes with each session; it is answered once. */
  offered(offer: UpdateAgent, offerer: Offerer): void {
    const { settings, log } = this.#o
    if (this.#isBusy || readUpdate(settings)?.updateId === offer.updateId) return
    if (readUpdate(settings)?.phase === 'switching') return
    this.#isBusy = true
    this.#answerPatiently(offer, offerer)
      .catch((error: unknown) => {
        if (error instanceof TryAgain) log.info({ reason: error.message }, 'the update waits')
        else this.#refuse(offer, '', (error as Error).message)
      })
      .finally(() => {
        this.#isBusy = false
      })
  }

  /** A broken download continues where it was; after some tries, or without its session, the next offer does that. */
  async #answerPatiently(offer: UpdateAgent, offerer: Offerer): Promise<void> {
    for (let left = UPDATES.tries; ; left--) {
      try {
        return await this.#answer(offer, offerer)
      } catch (error) {
        if (!(error instanceof TryAgain) || left <= 1) throw error
        await delay(UPDATES.againMs, undefined, { ref: false })
      }
    }
  }

  #refuse(offer: UpdateAgent, version: string, message: string): void {
    this.#o.log.warn({ message }, 'the update was not made')
    const from = { slot: this.#slots?.own ?? '', version: VERSION }
    const to = { slot: '', version }
    this.#report({ updateId: offer.updateId, from, to, phase: 'returned', message })
  }

  async #answer(offer: UpdateAgent, offerer: Offerer): Promise<void> {
    const { settings, log } = this.#o
    const slots = this.#slots
    const release = slots && readRelease(slots)
    if (!slots || !release) {
      return this.#refuse(
        offer,
        '',
        'This agent was not installed from a signed release. Run the update command of the server page on the server.',
      )
    }
    const answer = answerOffer({
      ...offer,
      key: release.key,
      own: release.facts,
      controlPlane: offerer.controlPlane,
      platform,
    })
    if (answer.kind === 'refused') return this.#refuse(offer, '', answer.message)
    const { manifest, file } = answer
    log.info({ version: manifest.version }, 'an update begins')
    const problem = lacksSpace(slots.root, file.bytes)
    if (problem) return this.#refuse(offer, manifest.version, problem)
    // named by what is signed: an id of the offer could lead anywhere
    const archive = join(slots.root, `.download-${file.sha256}`)
    const digest = await download(archive, file, (offset) =>
      offerer.fetch({ updateId: offer.updateId, platform, offset }),
    )
    if (digest !== file.sha256) {
      rmSync(archive, { force: true })
      const why = 'The package is not the one that the manifest names; nothing was changed.'
      return this.#refuse(offer, manifest.version, why)
    }
    const slot = chooseSlot(slots, manifest)
    await unpack(slots.root, archive, slot, manifest.version)
    writeUpdate(settings, {
      updateId: offer.updateId,
      from: { slot: slots.own, version: VERSION },
      to: { slot, version: manifest.version },
      phase: 'switching',
      message: '',
    })
    this.#startUpdater(slots)
    this.#look() // from now on it looks for the verdict
  }

  #startUpdater({ root, own }: Slots): void {
    // of this version: what it does must not depend on the one that is being tried
    spawn(join(root, own, 'bin/berth-agent'), ['updater', root], {
      detached: true,
      stdio: 'ignore',
      cwd: '/',
    }).unref()
  }
}

function lacksSpace(folder: string, bytes: number): string | undefined {
  const need = bytes * UPDATES.spaceFactor
  const free = measureDiskSpace([folder])[0]?.freeBytes ?? 0
  if (free >= need) return undefined
  return `The update needs ${inGigabytes(need)} at ${folder}, and ${inGigabytes(free)} are free; nothing was changed.`
}

/** Returns the SHA-256 of the complete file. What an earlier session fetched is kept and hashed again. */
async function download(
  file: string,
  { bytes }: AgentPackage,
  fetch: (offset: number) => AsyncIterable<Uint8Array>,
): Promise<string> {
  const hash = createHash('sha256')
  const known = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  if (known > bytes) rmSync(file)
  let offset = known > bytes ? 0 : known
  if (offset > 0) for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer)
  const out = await open(file, 'a', 0o600)
  try {
    if (offset < bytes) {
      for await (const chunk of fetch(offset)) {
        offset += chunk.length
        if (offset > bytes) break // more than announced: the digest cannot match
        hash.update(chunk)
        await out.writeFile(chunk)
      }
    }
    await out.sync()
  } catch (error) {
    throw new TryAgain((error as Error).message)
  } finally {
    await out.close()
  }
  if (offset < bytes) throw new TryAgain(`${offset} of ${bytes} bytes arrived`)
  return offset === bytes ? hash.digest('hex') : ''
}

/** Into its own folder, which appears complete or not at all, after the program has answered once. */
async function unpack(root: string, archive: string, slot: string, version: string): Promise<void> {
  const made = join(root, `.new-${slot}`)
  rmSync(made, { recursive: true, force: true })
  mkdirSync(made, { mode: 0o755 })
  chmodSync(made, 0o755)
  const args = ['tar', '-xzf', archive, '-C', made, '--no-same-owner']
  const { code, stderr } = await runProgram(args, { timeoutMs: UPDATES.unpackMs })
  if (code !== 0)
    throw new Error(`The package could not be unpacked: ${stderr.slice(0, 200).trim()}`)
  rmSync(archive, { force: true })
  const shown = await runProgram([join(made, 'bin/berth-agent'), '--version'], {
    env: { PATH: SYSTEM_PATH },
  })
  const said = shown.stdout.toString('utf8').trim()
  if (shown.code !== 0 || said !== version) {
    rmSync(made, { recursive: true, force: true })
    throw new Error(`Version ${version} does not start on this server; nothing was changed.`)
  }
  renameSync(made, join(root, slot))
  syncFolder(root)
}
