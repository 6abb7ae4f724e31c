// `berth-server upgrade`: verifies a signed release, unpacks it beside the running version, saves the database, switches,
// and waits until the new version is ready. Otherwise it returns, with the database if that was migrated and no other
// control plane uses it. It runs as root; what touches the data runs as the account of the service. For a Debian package,
// dpkg unpacks, and the package's script calls this program again, without a release.

import { execFile } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { AGENT_MANIFEST_SIGNATURE, compareVersions, RELEASE_KEY } from '@berth/shared/release'
import { pointTo } from '@berth/shared/slots'
import { showBytes } from '@berth/shared/units'
import { VERSION } from '@berth/shared/version'
import { type Config, readConfig } from '../../config.ts'
import { UPGRADE } from '../../limits/installation.ts'
import type { CommandContext } from '../command.ts'
import { dialable, inUrl } from '../doctor/network.ts'
import { readOptions } from '../options.ts'
import {
  endJournal,
  forgetUndone,
  isInProgress,
  noteUndone,
  readJournal,
  type UpgradeJournal,
  writeJournal,
} from './journal.ts'
import { DELIVERED, installPackage, readDelivered } from './package.ts'
import { type CheckedRelease, findRelease } from './release-source.ts'
import { isAlive, readRunning } from './running.ts'
import { cleanEnvironment, holdFile, openService, type Service } from './service.ts'
import { dropOldSlots, findInstallation, type Installation } from './slots.ts'

const USAGE = 'upgrade --from FOLDER|FILE|https://… [--key FILE] [--wait SECONDS]'
const KEY_FILE = '/etc/berth/release.pub'
const run = promisify(execFile)

interface Steps {
  installation: Installation
  config: Config
  env: NodeJS.ProcessEnv
  service: Service
  print: (text: string) => void
}

export async function upgrade({ args, env, print }: CommandContext): Promise<number> {
  const { values } = readOptions(
    args,
    {
      from: { type: 'string' },
      key: { type: 'string' },
      wait: { type: 'string' },
      resume: { type: 'boolean' },
    },
    { usage: USAGE },
  )
  const installation = findInstallation(process.argv[1] ?? '')
  const { root } = installation
  const config = readConfig(env)
  const steps = { installation, config, env, service: openService(root, config.dataDir), print }
  if (values.resume) return resume(steps)
  const delivered = readDelivered(root)
  if (values.from === undefined && delivered === undefined) {
    throw new Error(
      `Name the release: a folder, a file or an address.\n\nUsage: berth-server ${USAGE}`,
    )
  }
  const readyMs = values.wait === undefined ? UPGRADE.readyMs : readSeconds(values.wait)
  if (isInProgress(root)) throw new Error('Another upgrade is running.')
  // before its switch, an interrupted one has changed nothing
  if (readJournal(root)?.phase === 'prepared') await resume(steps)
  if (readJournal(root)) {
    throw new Error(
      'An earlier upgrade was interrupted. Restart the control plane, which ends it, then try again.',
    )
  }
  const scratch = mkdtempSync(join(root, '.upgrading-'))
  chmodSync(scratch, 0o755) // the account of the service starts the new program once
  try {
    if (values.from === undefined)
      return await takeDelivered(steps, delivered ?? '', readyMs, scratch)
    const key = readKey(values.key, join(root, installation.current))
    const kind = delivered === undefined ? 'archive' : 'package'
    const release = await findRelease(values.from, key, kind, scratch)
    judgeVersion(release.version)
    checkSpace(root, release)
    if (delivered !== undefined) return await installPackage(root, release, env, values.wait)
    await unpack(installation, release, scratch)
    return await switchTo(steps, release.version, readyMs)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** The version that dpkg delivered. A failure is noted, because dpkg would try again at each use of apt. */
async function takeDelivered(
  steps: Steps,
  version: string,
  readyMs: number,
  scratch: string,
): Promise<number> {
  judgeVersion(version)
  try {
    await place(steps.installation, version, scratch, async (folder) => {
      // hard links where the file system is the same one: dpkg replaces its files and never writes into them
      await run('cp', ['-Rl', `${DELIVERED}/.`, folder]).catch(() =>
        run('cp', ['-R', '--remove-destination', `${DELIVERED}/.`, folder]),
      )
    })
    if (await steps.service.isUsed()) return await switchTo(steps, version, readyMs)
  } catch (error) {
    noteUndone(steps.installation.root, { version, why: (error as Error).message, at: Date.now() })
    throw error
  }
  // an image that is being built runs nothing, so there is nothing to try
  const { root, current } = steps.installation
  pointTo(root, 'previous', current)
  pointTo(root, 'current', version)
  dropOldSlots(root)
  forgetUndone(root)
  steps.print(
    `The control plane does not run, so version ${version} was not tried. It runs at the next start.`,
  )
  return 0
}

function readSeconds(text: string): number {
  const seconds = Number(text)
  if (!/^\d{1,4}$/.test(text) || seconds < 1)
    throw new Error(`--wait takes seconds, got '${text}'.`)
  return seconds * 1_000
}

/** Given, of this machine, or of the running release. */
function readKey(given: string | undefined, current: string): string {
  const file = [given, KEY_FILE, join(current, RELEASE_KEY)].find(
    (one) => one !== undefined && (one === given || existsSync(one)),
  )
  if (file !== undefined) return readFileSync(file, 'utf8')
  throw new Error(
    `This installation knows no key of a release. Put the publisher's public key into ${KEY_FILE}, or pass it with --key FILE.`,
  )
}

function judgeVersion(version: string): void {
  const order = compareVersions(version, VERSION)
  if (order === 0) throw new Error(`Version ${version} runs already.`)
  if (order > 0) return
  throw new Error(
    `Version ${version} is older than ${VERSION}, which runs here. A database is never migrated backwards: restore a backup that ${version} made, on a new installation of it (berth-server restore).`,
  )
}

function checkSpace(root: string, { bytes }: CheckedRelease): void {
  const need = bytes * UPGRADE.spaceFactor
  const { bavail, bsize } = statfsSync(root)
  if (bavail * bsize >= need) return
  throw new Error(
    `${root} has ${showBytes(bavail * bsize)} free, and the upgrade needs ${showBytes(need)}; nothing was changed.`,
  )
}

const unpack = (installation: Installation, release: CheckedRelease, scratch: string) =>
  place(installation, release.version, scratch, async (folder) => {
    const options = ['--strip-components=2', '--no-same-owner']
    await run('tar', ['-xzf', release.file, '-C', folder, ...options])
    const signature = join(folder, 'packages', AGENT_MANIFEST_SIGNATURE)
    if (release.agentSignature && !existsSync(signature))
      writeFileSync(signature, release.agentSignature)
  })

/** The folder appears complete, after its program has answered once. */
async function place(
  { root, current }: Installation,
  version: string,
  scratch: string,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  const made = join(scratch, 'unpacked')
  mkdirSync(made, { mode: 0o755 })
  await fill(made)
  const { stdout } = await run(join(made, 'bin/berth-server'), ['--version']).catch(() => ({
    stdout: '',
  }))
  if (stdout.trim() !== version) {
    throw new Error(`Version ${version} does not start on this machine; nothing was changed.`)
  }
  const target = join(root, version)
  if (version === current) throw new Error(`Version ${version} is the current one.`)
  rmSync(target, { recursive: true, force: true }) // of an upgrade that was undone
  renameSync(made, target)
}

/** A part of this upgrade in a process of the old version, as the account of the service. */
async function perform(
  { installation: { root }, env }: Steps,
  version: string,
  command: string,
  ...files: string[]
): Promise<string> {
  const program = join(root, version, 'bin/berth-server')
  const { stdout } = await run(program, [command, ...files], {
    env: cleanEnvironment(env, root),
  }).catch((error: Error & { stderr?: string }) => {
    throw new Error(error.stderr?.trim().replace(/^error: /, '') || error.message)
  })
  return stdout.trim()
}

async function switchTo(steps: Steps, to: string, readyMs: number): Promise<number> {
  const { installation, config, service, print } = steps
  const { root, current: from } = installation
  const backup = join(config.dataDir, 'upgrades', `before-${to}.tar.gz`)
  await perform(steps, to, 'upgrade-check').catch((error: Error) => {
    throw new Error(`${error.message} Nothing was changed.`)
  })
  const prepared = { from, to, backup, starts: 0 }
  writeJournal(root, { ...prepared, phase: 'prepared' })
  print(`Version ${to} is checked and unpacked. Stopping version ${from} …`)
  const isSaved = await saveDatabase(steps, backup).catch(async (error: Error) => {
    endJournal(root)
    await service.start()
    throw new Error(`The database could not be saved, so version ${from} runs on. ${error.message}`)
  })
  const journal = { ...prepared, backup: isSaved ? backup : undefined }
  writeJournal(root, { ...journal, phase: 'switched' })
  pointTo(root, 'previous', from)
  pointTo(root, 'current', to)
  await service.start()
  const why = await waitUntilReady(config, to, readyMs)
  if (why === undefined) {
    endJournal(root)
    forgetUndone(root)
    dropOldSlots(root)
    print(
      isSaved
        ? `Version ${to} is ready. Version ${from} and the saved database stay for a way back.`
        : `Version ${to} is ready. Upgrade the other control planes next.`,
    )
    print('Upgrade the agents: berth server upgrade --all')
    return 0
  }
  print(`Version ${to} did not become ready: ${why}`)
  await service.stop()
  await goBack(steps, { ...journal, phase: 'returning' }, why)
  await service.start()
  const still = await waitUntilReady(config, from, UPGRADE.backMs)
  if (still !== undefined)
    throw new Error(`Version ${from} is current again, but does not answer: ${still}`)
  print(`Version ${from} answers again.`)
  return 1
}

/** Stops the old version. Returns whether the database was saved: others write into it, so it could not be brought back. */
async function saveDatabase(steps: Steps, backup: string): Promise<boolean> {
  const { installation, service, print } = steps
  await service.stop()
  const others = await perform(steps, installation.current, 'upgrade-others')
  if (others !== '') {
    print(
      `Other control planes use the database, so it stays as it is, and is neither saved nor restored: ${others}.`,
    )
    return false
  }
  await perform(steps, installation.current, 'upgrade-backup', backup)
  print(`The database is saved: ${backup}`)
  return true
}

const RETURNED: Record<string, (from: string, to: string) => string> = {
  unchanged: (from) => `Version ${from} is back. The database was not migrated and stays as it is.`,
  shared: (from) =>
    `Version ${from} is back. Other control planes use the database, so it stays as it is.`,
  restored: (from, to) =>
    `Version ${from} is back. Version ${to} had migrated the database, so it is restored as it was before the upgrade; the other one is kept beside it (upgrades/undone, or the schema berth_undone_…).`,
}

/** This machine serves nothing meanwhile. Each step can be repeated. */
async function goBack(
  steps: Steps,
  journal: Omit<UpgradeJournal, 'by'>,
  why: string,
): Promise<void> {
  const { installation, print } = steps
  const { from, to, backup } = journal
  writeJournal(installation.root, journal)
  const done =
    backup === undefined ? 'shared' : await perform(steps, from, 'upgrade-restore', backup)
  pointTo(installation.root, 'current', from)
  noteUndone(installation.root, { version: to, why, at: Date.now() })
  endJournal(installation.root)
  print(RETURNED[done]?.(from, to) ?? done)
}

const addressOf = ({ host, port, https }: Config): string =>
  `http${https ? 's' : ''}://${inUrl(dialable(host))}:${port}`

/** Undefined: ready. Otherwise why not. */
async function waitUntilReady(
  config: Config,
  version: string,
  ms: number,
): Promise<string | undefined> {
  const url = addressOf(config)
  let pid = 0
  let starts = 0
  let said = 'it was never started'
  for (const end = Date.now() + ms; Date.now() < end; ) {
    const running = readRunning(config.dataDir)
    if (running?.version === version && running.pid !== pid) {
      pid = running.pid
      starts += 1
    }
    const ends = starts - (running && isAlive(running) ? 1 : 0)
    if (ends >= UPGRADE.ends) return `it ended ${ends} times`
    const found = await ask(url)
    if (found === version) return undefined
    said =
      starts === 0
        ? said
        : `${url}/health/ready ${found === undefined ? 'does not answer' : 'is not ready'} within ${ms / 1_000} s`
    if (running && starts > 0 && !isAlive(running)) said = 'it ended'
    await delay(UPGRADE.pollMs)
  }
  return said
}

/** The version that is ready there. */
async function ask(url: string): Promise<string | undefined> {
  try {
    const ready = await get(`${url}/health/ready`)
    if (ready.status !== 200) return ''
    return (JSON.parse((await get(`${url}/api/health`)).body) as { version: string }).version
  } catch {
    return undefined
  }
}

/** Asks this machine, by its address: whose certificate answers does not matter. */
function get(url: string): Promise<{ status: number | undefined; body: string }> {
  const options = { rejectUnauthorized: false, timeout: UPGRADE.pollMs * 10, agent: false } as const
  return new Promise((resolve, reject) => {
    const answered = (answer: IncomingMessage): void => {
      readBounded(answer).then((body) => resolve({ status: answer.statusCode, body }), reject)
    }
    const asked = url.startsWith('https:')
      ? requestHttps(url, options, answered)
      : requestHttp(url, options, answered)
    asked.on('timeout', () => asked.destroy(new Error('no answer')))
    asked.on('error', reject)
    asked.end()
  })
}

async function readBounded(answer: IncomingMessage): Promise<string> {
  let body = ''
  for await (const chunk of answer.setEncoding('utf8')) {
    body += chunk
    if (body.length > UPGRADE.answerBytes) throw new Error('the answer is too long')
  }
  return body
}

/** Before each start of the service: an upgrade that was killed is completed or undone. */
async function resume(steps: Steps): Promise<number> {
  const { installation, config, print } = steps
  const { root } = installation
  const journal = readJournal(root)
  if (!journal || isAlive(journal.by)) return 0
  rmSync(holdFile(root), { force: true })
  if (journal.phase === 'prepared') {
    endJournal(root)
    print(
      `An upgrade to ${journal.to} was interrupted before the switch; version ${journal.from} stays.`,
    )
    return 0
  }
  const running = readRunning(config.dataDir)
  if (journal.phase === 'switched' && running?.version === journal.to && running.isReady) {
    endJournal(root)
    forgetUndone(root)
    print(`The interrupted upgrade to ${journal.to} is complete.`)
    return 0
  }
  if (journal.phase === 'switched' && journal.starts < UPGRADE.orphanStarts) {
    pointTo(root, 'previous', journal.from)
    pointTo(root, 'current', journal.to)
    writeJournal(root, { ...journal, starts: journal.starts + 1 })
    return 0
  }
  await goBack(steps, { ...journal, phase: 'returning' }, 'the upgrade was interrupted')
  return 0
}
