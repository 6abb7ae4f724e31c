// Classifies storage errors once for every gateway: no space, or a database that is unreachable now. Both are
// temporary, so callers are asked to retry. Every other error stays a fault.

/** No space to write; reads still work. */
export class StorageFull extends Error {
  constructor(cause: unknown) {
    super('no room to write', { cause })
    this.name = 'StorageFull'
  }
}

/** The database is unreachable now, or ended the connection. */
export class StoreUnavailable extends Error {
  constructor(cause: unknown) {
    super('the database cannot be reached', { cause })
    this.name = 'StoreUnavailable'
  }
}

/** The connection broke during the commit: the change may be stored or not. */
export class OutcomeUnknown extends StoreUnavailable {
  constructor(cause: unknown) {
    super(cause)
    this.name = 'OutcomeUnknown'
  }
}

/**
 * SQLSTATE codes: connection exceptions, a server that stops or starts or ended an idle session, too many connections,
 * a standby.
 */
const AWAY = /^(08|57P0[1235]|53300|25006)/

export const isAway = (code: string | undefined): boolean => AWAY.test(code ?? '')

export const codeOf = (error: unknown): string =>
  String((error as { code?: unknown } | null)?.code ?? '')

const FULL: readonly string[] = ['53100', 'SQLITE_FULL', 'ENOSPC', 'EDQUOT']

export const isStorageFull = (error: unknown): boolean =>
  error instanceof StorageFull || FULL.includes(codeOf(error))

/** Remembers whether a database refused a write for lack of space since the last check. */
export class Refusals {
  isFull = false

  note(error: unknown): void {
    if (isStorageFull(error)) this.isFull = true
  }
}

export const isStoreUnavailable = (error: unknown): boolean => error instanceof StoreUnavailable

export const isOutcomeUnknown = (error: unknown): boolean => error instanceof OutcomeUnknown
