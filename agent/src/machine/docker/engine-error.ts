// Failures of the engine, sorted by what a caller does about them. The message is only the reason; the caller makes the
// sentence.
import { ENGINE } from '../../limits/docker.ts'

/**
 * unavailable: no engine, no permission to use it, or a timeout. conflict: in use, or exists already. refused: every
 * other unwanted answer of the engine.
 */
export type EngineErrorKind =
  | 'unavailable'
  | 'not_found'
  | 'conflict'
  | 'disk_full'
  | 'canceled'
  | 'refused'

export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly kind: EngineErrorKind
  /** Of the engine's answer; undefined when there was none. */
  readonly status: number | undefined

  constructor(kind: EngineErrorKind, message: string, status?: number) {
    super(message)
    this.kind = kind
    this.status = status
  }
}

export const isNotFound = (error: unknown): boolean =>
  error instanceof EngineError && error.kind === 'not_found'

/** Undefined when the engine has no such thing. */
export const orMissing = <T>(call: Promise<T>): Promise<T | undefined> =>
  call.catch((error: unknown) => {
    if (isNotFound(error)) return undefined
    throw error
  })

const DISK_FULL = /no space left on device|ENOSPC|disk quota exceeded/i
export const saysDiskFull = (text: string): boolean => DISK_FULL.test(text)

/** One line, not longer than a person reads. */
export const toReason = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > ENGINE.reasonLength ? `${line.slice(0, ENGINE.reasonLength)}…` : line
}

/** Turns an error of Node or of an engine's stream into an EngineError; `signal` may have aborted the call. */
export function toEngineError(error: unknown, signal?: AbortSignal): EngineError {
  if (error instanceof EngineError) return error
  if (signal?.aborted) return new EngineError('canceled', 'the call was canceled')
  const reason = toReason((error as Error).message)
  return new EngineError(saysDiskFull(reason) ? 'disk_full' : 'unavailable', reason)
}

/** For a message with which the engine refused a call, or ended a stream. */
export function toRefusal(message: string, status?: number): EngineError {
  const reason = toReason(message)
  if (saysDiskFull(reason)) return new EngineError('disk_full', reason, status)
  if (status === 404) return new EngineError('not_found', reason, status)
  if (status === 409) return new EngineError('conflict', reason, status)
  return new EngineError('refused', reason, status)
}
