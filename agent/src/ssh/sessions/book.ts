// The daemon's table of sessions: who is connected, and what was reported to the control plane. A change of the table
// and its event for the audit log are one transaction of the journal.

import { SshSessionChangedSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Clock } from '../../clock.ts'
import type { Journal } from '../../journal/journal.ts'
import type { SshSessionRow } from '../../journal/ssh-sessions.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'

export interface SessionResult {
  reason: string
  bytesSent: number
  exitCode: number | null
}

export class SessionBook {
  readonly #journal: Journal
  readonly #clock: Pick<Clock, 'now'>
  readonly #open = new Map<string, SshSessionRow>()

  constructor(journal: Journal, clock: Pick<Clock, 'now'>) {
    this.#journal = journal
    this.#clock = clock
    for (const row of journal.sshSessions.listOpen()) this.#open.set(row.id, row)
  }

  list(): SshSessionRow[] {
    return [...this.#open.values()]
  }

  enter(row: SshSessionRow): void {
    this.#write(row, true)
    this.#open.set(row.id, row)
  }

  change(id: string, change: Partial<SshSessionRow>): void {
    const row = this.#open.get(id)
    if (!row) return
    const next = { ...row, ...change }
    this.#write(next, false)
    this.#open.set(id, next)
  }

  /** Idempotent. */
  end(id: string, result: SessionResult): void {
    const row = this.#open.get(id)
    if (!row) return
    const { reason, bytesSent, exitCode } = result
    const endReason = row.ending || reason
    this.#write({ ...row, endedAt: this.#clock.now(), endReason, bytesSent, exitCode }, true)
    this.#open.delete(id)
  }

  #write(row: SshSessionRow, isFact: boolean): void {
    const journal = this.#journal
    const now = this.#clock.now()
    journal.transact(() => {
      journal.sshSessions.put(row)
      journal.sshSessions.dropBefore(now - SSH_SESSIONS.keptMs)
      if (!isFact) return
      const value = create(SshSessionChangedSchema, {
        sessionId: row.id,
        serial: BigInt(row.serial),
        keyId: row.keyId,
        environmentId: row.environmentId ?? 0,
        verb: row.verb,
        account: row.account,
        startedAt: timestampFromMs(row.startedAt),
        ...(row.endedAt === null ? {} : { endedAt: timestampFromMs(row.endedAt) }),
        endReason: row.endReason,
        bytesSent: BigInt(row.bytesSent),
        ...(row.exitCode === null ? {} : { exitCode: row.exitCode }),
      })
      const body = { case: 'sshSession' as const, value }
      journal.outbox.append({ attemptId: '', fence: 0n, atMs: now, body })
    })
  }
}
