// What happens to containers, as the engine tells it. The stream ends with an EngineError when the connection breaks;
// whoever needs to know more looks, and opens it anew.
import { type Engine, EngineError, toEngineError } from './engine.ts'
import { readMessages } from './messages.ts'

export interface EngineEvent {
  kind: 'container' | 'network' | 'volume' | 'image'
  /** `start`, `die`, `oom`, `destroy`, `connect`, … */
  action: string
  /** Container id; for networks the id of the container that came or went, if there is one. */
  id: string
  labels: Record<string, string>
  /** Of `die`. */
  exitCode: number | undefined
  atMs: number
}

interface RawEvent {
  Type: EngineEvent['kind']
  Action: string
  Actor: { ID: string; Attributes: Record<string, string> | null }
  timeNano: number
}

/** Containers and networks of the whole engine, from now on (`onOpen`), until `signal`. */
export async function* events(
  engine: Engine,
  signal: AbortSignal,
  onOpen?: () => void,
): AsyncGenerator<EngineEvent> {
  const filters = JSON.stringify({ type: ['container', 'network'] })
  try {
    const stream = await engine.open({ method: 'GET', path: '/events', query: { filters }, signal })
    onOpen?.()
    for await (const raw of readMessages<RawEvent>(stream)) yield toEvent(raw)
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
