// The daemon's memory: SQLite with WAL and synchronous=FULL, so that commits survive a power loss, in exclusive locking
// mode, so that a second daemon on the same state directory cannot start. Transactions are serial and never await. A
// failed fsync ends the process, because the state of the disk is unknown afterwards.
import { randomUUID } from 'node:crypto'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { AttemptTable } from './attempt-table.ts'
import { Outbox } from './outbox.ts'
import { DiskReserve } from './reserve.ts'
import { KNOWN_ENVIRONMENTS_SCHEMA, SCHEMA, SCHEMA_VERSION } from './schema.ts'
import { SSH_SESSIONS_SCHEMA, SshSessionTable } from './ssh-sessions.ts'

/** A problem that needs an operator; the message says what it is. */
class JournalError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'JournalError'
  }
}

interface JournalOptions {
  bootId: string
  /** Called once the journal can no longer be trusted; must end the process. */
  fatal: (error: Error) => void
  reserve?: DiskReserve
  openDatabase?: (file: string) => Database.Database
}

function openFile(file: string): Database.Database {
  closeSync(openSync(file, 'a', 0o600)) // the files beside it get its mode
  return new Database(file, { timeout: 500 })
}

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? ''
const isBroken = (code: string): boolean =>
  code.startsWith('SQLITE_IOERR') || code === 'SQLITE_CORRUPT' || code === 'SQLITE_NOTADB'

export class Journal {
  readonly attempts: AttemptTable
  readonly outbox: Outbox
  readonly sshSessions: SshSessionTable
  readonly journalId: string
  /** Boot id of the machine during the previous run of the daemon. */
  readonly formerBootId: string
  readonly reserve: DiskReserve
  readonly #db: Database.Database
  readonly #fatal: (error: Error) => void
  readonly #listeners = new Set<() => void>()

  private constructor(db: Database.Database, stateDir: string, options: JournalOptions) {
    this.#db = db
    this.#fatal = options.fatal
    this.reserve = options.reserve ?? new DiskReserve(join(stateDir, 'journal.reserve'))
    const meta = prepareTables(db, options.bootId)
    this.journalId = meta.journalId
    this.formerBootId = meta.formerBootId
    this.attempts = new AttemptTable(db)
    this.outbox = new Outbox(db)
    this.sshSessions = new SshSessionTable(db)
  }

  static open(stateDir: string, options: JournalOptions): Journal {
    const file = join(stateDir, 'journal.db')
    mkdirSync(stateDir, { recursive: true, mode: 0o711 })
    let db: Database.Database | undefined
    try {
      db = (options.openDatabase ?? openFile)(file)
      db.defaultSafeIntegers(true)
      db.pragma('locking_mode = EXCLUSIVE')
      db.pragma('journal_mode = WAL')
      db.pragma('synchronous = FULL')
      return new Journal(db, stateDir, options)
    } catch (error) {
      db?.close()
      throw explain(error, file)
    }
  }

  /** Atomic; on disk when it returns. */
  transact<T>(work: () => T): T {
    try {
      return this.#commit(work)
    } catch (error) {
      const code = codeOf(error)
      if (code === 'SQLITE_FULL' && this.reserve.release()) return this.#commit(work)
      if (isBroken(code)) this.#fatal(error as Error)
      throw error
    }
  }

  assignmentsVersion(): bigint {
    return this.#db.prepare('select assignments_version from meta').pluck().get() as bigint
  }

  saveAssignmentsVersion(version: bigint): void {
    this.#db.prepare('update meta set assignments_version = ?').run(version)
  }

  /** Proves that the store answers; otherwise a heartbeat would only prove that the event loop runs. */
  ping(): void {
    this.#db.prepare('select 1 from meta').get()
  }

  /** Called after each commit that appended an event. */
  onAppended(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  close(): void {
    this.#listeners.clear()
    this.#db.close()
  }

  get isOpen(): boolean {
    return this.#db.open
  }

  #commit<T>(work: () => T): T {
    if (this.#db.inTransaction) return work()
    let result: T
    try {
      result = this.#db.transaction(work).immediate()
    } catch (error) {
      this.outbox.takeAppended()
      throw error
    }
    if (this.outbox.takeAppended()) for (const listener of this.#listeners) listener()
    return result
  }
}

function prepareTables(
  db: Database.Database,
  bootId: string,
): { journalId: string; formerBootId: string } {
  return db
    .transaction(() => {
      const version = Number(db.pragma('user_version', { simple: true }))
      if (version > SCHEMA_VERSION) {
        throw new JournalError(
          `The journal was written by a newer agent (format ${version}, this one knows ${SCHEMA_VERSION}). Install that version again.`,
        )
      }
      if (version === 0) {
        db.exec(SCHEMA)
        db.pragma(`user_version = ${SCHEMA_VERSION}`)
        db.prepare('insert into meta values (1, ?, ?, 1, 0)').run(randomUUID(), bootId)
      }
      db.exec(SSH_SESSIONS_SCHEMA)
      db.exec(KNOWN_ENVIRONMENTS_SCHEMA)
      const row = db.prepare('select journal_id, boot_id from meta').get() as {
        journal_id: string
        boot_id: string
      }
      db.prepare('update meta set boot_id = ?').run(bootId)
      return { journalId: row.journal_id, formerBootId: row.boot_id }
    })
    .immediate()
}

function explain(error: unknown, file: string): Error {
  if (error instanceof JournalError) return error
  const code = codeOf(error)
  const { message } = error as Error
  if (code === 'SQLITE_BUSY') {
    return new JournalError(
      `Another berth-agent holds ${file}. Two daemons cannot share a state directory: stop the other one, or set BERTH_STATE_DIR.`,
    )
  }
  if (isBroken(code)) {
    return new JournalError(
      `${file} cannot be read (${message}). Restore it, or move it away: attempts under way are then reported as lost.`,
    )
  }
  return new JournalError(`${file} cannot be opened: ${message}.`, { cause: error })
}
