// Streams the engine's events about containers and networks. The stream ends with an EngineError when the connection
// breaks; the caller then inspects the current state and opens it again.
import type { Readable } from 'node:stream'
import type { Engine } from './engine.ts'
import { EngineError, toEngineError } from './engine-error.ts'
import { readMessages } from './messages.ts'

export interface EngineEvent {
  kind: 'container' | 'network' | 'volume' | 'image'
  /** `start`, `die`, `oom`, `destroy`, `connect`, … */
  action: string
  /** Container id; for networks the id of the container that joined or left, if there is one. */
  id: string
  labels: Record<string, string>
  /** Only for `die`. */
  exitCode: number | undefined
  atMs: number
}

interface RawEvent {
  Type: EngineEvent['kind']
  Action: string
  Actor: { ID: string; Attributes: Record<string, string> | null }
  timeNano: number
}

/** Events of all containers and networks of the engine, from now on (`onOpen`) until `signal`. */
export async function* events(
  engine: Engine,
  signal: AbortSignal,
  onOpen?: () => void,
): AsyncGenerator<EngineEvent> {
  try {
    const docker = await engine.docker({ signal })
    const stream = await docker.getEvents({ filters: { type: ['container', 'network'] } })
    onOpen?.()
    for await (const raw of readMessages<RawEvent>(stream as Readable)) yield toEvent(raw)
  } catch (error) {
    if (signal.aborted) return
    throw toEngineError(error, signal)
  }
  if (!signal.aborted) throw new EngineError('unavailable', 'the engine ended its events')
}

function toEvent(raw: RawEvent): EngineEvent {
  const labels = raw.Actor.Attributes ?? {}
  const isContainer = raw.Type === 'container'
  return {
    kind: raw.Type,
    action: raw.Action,
    id: isContainer ? raw.Actor.ID : (labels.container ?? raw.Actor.ID),
    labels,
    exitCode: labels.exitCode === undefined ? undefined : Number(labels.exitCode),
    atMs: Math.floor(raw.timeNano / 1e6),
  }
}
