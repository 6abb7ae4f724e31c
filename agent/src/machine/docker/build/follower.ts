// Follows the stream of a BuildKit build: steps with their durations, output as text, the real error, the image id. A
// stream that ends without an image id is a failure, regardless of what it reported before.
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { BUILDS } from '../../../limits/docker.ts'
import { EngineError } from '../engine-error.ts'
import { readMessages } from '../messages.ts'
import { decodeStatus, type Vertex, type VertexLog } from './buildkit-status.ts'

export interface BuildStep {
  id: string
  /** Numbers the steps in the order in which they began. */
  number: number
  /** `[2/4] RUN npm ci`. */
  name: string
  state: 'running' | 'done' | 'failed'
  /** Set when it ended. */
  ms?: number
  cached: boolean
}

export interface BuildObserver {
  /** Called when a step begins and when it ends; for cached steps only when they end. */
  onStep?: (step: BuildStep) => void
  onText?: (step: BuildStep, text: string) => void
}

export interface BuildOutcome {
  imageId?: string
  /** The engine's error message, if the build failed. */
  error?: string
  /** The failed step, if it is known. */
  step?: BuildStep
  /** Its last lines. */
  lastLines: string
}

interface BuildMessage {
  id?: string
  aux?: unknown
  error?: string
  errorDetail?: { message?: string }
}

interface Followed {
  step: BuildStep
  decoders: Map<number, StringDecoder>
  tail: string
}

/** Throws only when the stream breaks; a failed build is an outcome. */
export async function followBuild(
  stream: Readable,
  observer: BuildObserver,
): Promise<BuildOutcome> {
  const steps = new Map<string, Followed>()
  const outcome: BuildOutcome = { lastLines: '' }
  for await (const message of readMessages<BuildMessage>(stream)) {
    if (message.error !== undefined || message.errorDetail) {
      outcome.error = message.errorDetail?.message ?? message.error ?? ''
    } else if (message.id === 'moby.buildkit.trace' && typeof message.aux === 'string') {
      const status = decodeStatus(Buffer.from(message.aux, 'base64'))
      for (const vertex of status.vertexes) noteVertex(steps, vertex, observer)
      for (const log of status.logs) noteLog(steps, log, observer)
    } else {
      const id = (message.aux as { ID?: unknown } | undefined)?.ID
      if (typeof id === 'string') outcome.imageId = id
    }
  }
  const failed = [...steps.values()].findLast(({ step }) => step.state === 'failed')
  if (failed) Object.assign(outcome, { step: failed.step, lastLines: lastLines(failed.tail) })
  return outcome
}

function noteVertex(steps: Map<string, Followed>, vertex: Vertex, { onStep }: BuildObserver): void {
  const { startedMs, completedMs } = vertex
  if (startedMs === undefined && !vertex.cached && !vertex.error) return // not started
  if (vertex.cached && completedMs === undefined && !vertex.error) return // its end follows immediately
  const known = steps.get(vertex.digest)
  if (!known && steps.size >= BUILDS.steps) throw new EngineError('refused', 'too many steps')
  const state = vertex.error ? 'failed' : completedMs === undefined ? 'running' : 'done'
  const before = known?.step.state
  if (before === state || (before && before !== 'running')) return
  const step: BuildStep = {
    id: vertex.digest,
    number: known?.step.number ?? steps.size + 1,
    name: vertex.name,
    state,
    cached: vertex.cached,
    ...(startedMs !== undefined && completedMs !== undefined
      ? { ms: Math.max(0, completedMs - startedMs) }
      : {}),
  }
  steps.set(vertex.digest, { decoders: new Map(), tail: '', ...known, step })
  onStep?.(step)
}

/** Messages are cut anywhere, also inside a character. */
function noteLog(steps: Map<string, Followed>, log: VertexLog, { onText }: BuildObserver): void {
  const followed = steps.get(log.vertex)
  if (!followed) return
  const decoder = followed.decoders.get(log.stream) ?? new StringDecoder('utf8')
  followed.decoders.set(log.stream, decoder)
  const text = decoder.write(Buffer.from(log.bytes))
  if (!text) return
  followed.tail = (followed.tail + text).slice(-BUILDS.lastBytes)
  onText?.(followed.step, text)
}

const lastLines = (tail: string): string =>
  tail.trimEnd().split('\n').slice(-BUILDS.lastLines).join('\n')
