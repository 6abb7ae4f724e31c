// Errors of the storage below us, told apart once for every gateway: no room to write, or a database that cannot be
// reached now. Both end by themselves, so callers are told to try again. Everything else stays the fault it is.

/** No room to write; reads still work. */
export class StorageFull extends Error {
  constructor(cause: unknown) {
    super('no room to write', { cause })
    this.name = 'StorageFull'
  }
}

/** The database cannot be reached now, or ended the connection. */
export class StoreUnavailable extends Error {
  constructor(cause: unknown) {
    super('the database cannot be reached', { cause })
    this.name = 'StoreUnavailable'
  }
}

export const codeOf = (error: unknown): string =>
  String((error as { code?: unknown } | null)?.code ?? '')

const FULL: readonly string[] = ['53100', 'SQLITE_FULL', 'ENOSPC', 'EDQUOT']

export const isStorageFull = (error: unknown): boolean =>
  error instanceof StorageFull || FULL.includes(codeOf(error))

/** Whether a database refused a write for want of room since the last look. */
export class Refusals {
  isFull = false

  note(error: unknown): void {
    if (isStorageFull(error)) this.isFull = true
  }
}

export const isStoreUnavailable = (error: unknown): boolean => error instanceof StoreUnavailable
