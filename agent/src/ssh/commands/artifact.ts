// `artifact` and `artifacts`: the bytes of stored files of this environment, unmasked, because they have a hash. For a
// missing, expired or changed file the client gets a sentence, never an empty file; a truncated file fails the session.
import {
  ArtifactRefused,
  type OpenedArtifact,
  openArtifact,
  openArtifacts,
  readArtifacts,
} from '../../files/reading.ts'
import type { ArtifactRow } from '../../journal/artifact-table.ts'
import type { AgentSettings } from '../../settings.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { Ending } from '../sessions/frames.ts'
import type { Output } from '../sessions/output.ts'
import { NOT_AVAILABLE, Refusal, type Verb } from './commands.ts'
import { type Work, withoutInput } from './work.ts'

type Opened = Extract<OpenedArtifact, { kind: 'ok' }>

const describeFile = ({ size, sha256 }: Pick<Opened, 'size' | 'sha256'>): Buffer =>
  Buffer.from(`size=${size} sha256=${sha256}\n`)

const announce = ({ size, sha256 }: ArtifactRow): Buffer =>
  describeFile({ size, sha256: sha256.toString('hex') })

function open(
  settings: AgentSettings,
  question: { environmentId: number; artifactId: string; offset: number },
): Opened {
  const found = openArtifact(settings, question)
  if (found.kind !== 'ok') throw new Refusal(found.message, NOT_AVAILABLE)
  return found
}

async function sendRead(found: Opened, offset: number, output: Output, stop: AbortSignal) {
  let left = found.size - offset
  for await (const chunk of found.stream as AsyncIterable<Buffer>) {
    await output.write('data', chunk)
    left -= chunk.length
    if (stop.aborted) return
  }
  if (left === 0) return
  const message = `The copy of ${found.path} is not the file that was collected. Run the action again.`
  throw new Refusal(message, NOT_AVAILABLE)
}

/** Treats an unavailable file as a normal end of the work. */
async function ending(work: () => Promise<void>): Promise<Ending> {
  try {
    await work()
    return { code: 0 }
  } catch (error) {
    if (error instanceof ArtifactRefused) return { code: NOT_AVAILABLE, message: error.message }
    if (!(error instanceof Refusal)) throw error
    const { code, message } = error
    return { code, message }
  }
}

/** The same, where another program copies a large file; a small one is read as a whole. */
async function sendPassed(
  settings: AgentSettings,
  {
    environmentId,
    artifactId,
    offset,
  }: { environmentId: number; artifactId: string; offset: number },
  output: Output & Required<Pick<Output, 'pass'>>,
): Promise<void> {
  let found: ArtifactRow | undefined
  const asked = { environmentId, artifactIds: [artifactId] }
  const pieces = openArtifacts(settings, asked, (row) => {
    found = row
    return Buffer.alloc(0)
  })
  let isReported = false
  const report = async (): Promise<void> => {
    if (isReported || !found) return
    isReported = true
    if (offset > found.size)
      throw new Refusal(`${found.path} has ${found.size} bytes.`, NOT_AVAILABLE)
    await output.write('errors', announce(found))
  }
  for await (const piece of pieces) {
    await report()
    if (Buffer.isBuffer(piece)) await output.write('data', piece.subarray(offset))
    else if (!(await output.pass(piece.fd, { offset, length: piece.size - offset }))) return
  }
  await report() // for an empty file
}

/** The first line of stderr has size and digest; stdout is the file. */
export function startArtifact(
  settings: AgentSettings,
  { environmentId }: Pick<SessionContext, 'environmentId'>,
  { artifactId, offset }: Extract<Verb, { verb: 'artifact' }>,
  output: Output,
): Work {
  const stop = new AbortController()
  const asked = { environmentId, artifactId, offset }
  const { pass } = output
  const sendOne = async (): Promise<void> => {
    if (pass) return sendPassed(settings, asked, { ...output, pass })
    const found = open(settings, asked)
    await output.write('errors', describeFile(found))
    await sendRead(found, offset, output, stop.signal)
  }
  return withoutInput(ending(sendOne), stop)
}

/** Writes to stdout, for each file, a line with size and digest, then its bytes. The first failure ends it. */
export function startArtifacts(
  settings: AgentSettings,
  { environmentId }: Pick<SessionContext, 'environmentId'>,
  { artifactIds }: Extract<Verb, { verb: 'artifacts' }>,
  output: Output,
): Work {
  const stop = new AbortController()
  const sendAll = async (): Promise<void> => {
    const asked = { environmentId, artifactIds }
    const pieces = output.pass
      ? openArtifacts(settings, asked, announce)
      : readArtifacts(settings, asked, announce)
    for await (const piece of pieces) {
      if (Buffer.isBuffer(piece)) await output.write('data', piece)
      else if (!(await output.pass?.(piece.fd, { offset: 0, length: piece.size }))) break
      if (stop.signal.aborted) break
    }
  }
  return withoutInput(ending(sendAll), stop)
}
