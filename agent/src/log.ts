// The daemon's own log: JSON lines on stderr, which the service manager keeps. It gets ids, counts and sentences, never
// secrets or wire messages.
import { pino } from 'pino'

type Fields = Record<string, unknown>
export interface Log {
  debug(fields: Fields, message: string): void
  info(fields: Fields, message: string): void
  warn(fields: Fields, message: string): void
  error(fields: Fields, message: string): void
}

export const createLog = (level: string): Log =>
  pino({ name: 'berth-agent', level, base: null }, pino.destination({ dest: 2, sync: true }))

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** The parts of an error that go into a log line. */
export const describeError = (error: unknown): Fields => {
  const { message, code, stack } = error as Error & { code?: string }
  return { error: message ?? String(error), code, stack }
}
