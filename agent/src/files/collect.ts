// The runner's side of collecting files from a release: starts the child that may read them, stores what it sends, and
// enforces the bounds without trusting it.
import { spawn } from 'node:child_process'
import { ARTIFACTS } from '@berth/shared'
import { dropRights } from '../machine/process/confinement.ts'
import { SYSTEM_PATH } from '../machine/process/programs.ts'
import type { CollectOrder } from './collect-child.ts'
import { type Frame, FrameReader } from './frames.ts'
import type { ArtifactIntake, Bound, Incoming } from './store.ts'

/** What a collection returns besides its files. */
interface CollectionNotes {
  skipped(path: string, why: string): void
}

/** A file that could not be copied. */
export class CopyFailed extends Error {}

const REASONS: Record<string, string> = {
  EACCES: 'it cannot be read by the account of its environment',
  shorter: 'it became shorter while it was copied',
}

const MESSAGE_BYTES = 4_096

export async function collectFiles(
  order: CollectOrder,
  intake: ArtifactIntake,
  notes: CollectionNotes,
  o: { marker: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  // it drops its rights itself, so the environment needs no access to the agent's own files
  const [file = '', ...args] = [
    ...dropRights(undefined),
    process.execPath,
    ...process.execArgv,
    process.argv[1] as string,
    'collect',
  ]
  const child = spawn(file, args, {
    cwd: '/',
    env: { PATH: SYSTEM_PATH, LANG: 'C.UTF-8', ...o.marker },
    stdio: ['pipe', 'pipe', 'pipe'],
    signal: o.signal,
    killSignal: 'SIGKILL',
  })
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve(code))
  })
  exited.catch(() => undefined)
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    if (said.length < MESSAGE_BYTES) said += chunk.toString('utf8').slice(0, MESSAGE_BYTES)
  })
  child.stdin.on('error', () => undefined)
  child.stdin.end(JSON.stringify(order))
  const taker = new Taker(intake, notes)
  const reader = new FrameReader()
  try {
    for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
      for (const frame of reader.read(chunk)) taker.take(frame)
    }
    const code = await exited
    if (!taker.isDone) throw new Error(`the reader of files ended with ${code}: ${said.trim()}`)
  } catch (error) {
    taker.drop()
    throw error
  } finally {
    child.kill('SIGKILL')
  }
}

class Taker {
  readonly #intake: ArtifactIntake
  readonly #notes: CollectionNotes
  #open: Incoming | undefined
  isDone = false

  constructor(intake: ArtifactIntake, notes: CollectionNotes) {
    this.#intake = intake
    this.#notes = notes
  }

  drop(): void {
    this.#open?.drop()
    this.#open = undefined
  }

  take({ kind, body }: Frame): void {
    if (this.isDone) throw new Error('a frame after the last')
    if (kind === 'data') return void this.#incoming().write(body)
    if (kind === 'end') {
      const done = this.#incoming()
      this.#open = undefined
      return void done.finish()
    }
    if (kind === 'done') {
      this.isDone = true
      return
    }
    const facts = JSON.parse(body.toString('utf8')) as Record<string, unknown>
    const path = String(facts.path)
    if (kind === 'skip') this.#notes.skipped(path, String(facts.why))
    if (kind === 'fail') {
      const why = REASONS[String(facts.code)] ?? `reading failed (${facts.code})`
      throw new CopyFailed(`${path} could not be copied: ${why}.`)
    }
    if (kind === 'over') this.#intake.leaveOut(path, limitOf(facts.limit))
    if (kind === 'file') {
      if (this.#open) throw new Error('a file inside a file')
      const size = Number(facts.size)
      if (!Number.isSafeInteger(size) || size < 0) throw new Error('a file of no size')
      this.#open = this.#intake.begin(path, size, Number(facts.modifiedAt))
      if (!this.#open) throw new Error(`${path} is beyond the bounds`)
    }
  }

  #incoming(): Incoming {
    if (!this.#open) throw new Error('bytes of no file')
    return this.#open
  }
}

const LIMITS: readonly Bound[] = ['files', 'bytes', 'entries']
const limitOf = (given: unknown): Bound => LIMITS.find((limit) => limit === given) ?? 'files'

/** Names the bound for people. */
export const describeLimit = (limit: Bound, bounds: { files: number; bytes: number }): string => {
  if (limit === 'files') return `${bounds.files.toLocaleString('en-US')} files`
  if (limit === 'passed') return `${ARTIFACTS.passedBytes / 1_024 ** 3} GiB of files to read past`
  if (limit === 'bytes') return `${(bounds.bytes / 1_024 ** 3).toFixed(1)} GiB`
  return `${ARTIFACTS.entries.toLocaleString('en-US')} entries of folders to look through`
}
