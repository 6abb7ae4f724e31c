// What one change collects while its transaction is open: topics, audit entries and events, written at its end.
import type { Happening } from '@berth/shared'
import type { AuditRow } from '../../store/core/audit.ts'
import type { NewEvent } from '../../store/core/events.ts'
import type { Db } from '../../store/engine/db.ts'

/** One action. Its place in the chain and its hashes are added when it is written. */
interface AuditEntry {
  at: number
  organizationId: number | null
  actorType: AuditRow['actorType']
  actorId: string | null
  actorName: string | null
  tokenId: number | null
  address: string | null
  requestId: string | null
  verb: string
  subjectType: string
  subjectId: string
  subjectName: string | null
  details: Record<string, unknown>
}

/** What rules of notifications may be about, besides the ends of tasks, which the events tell. */
export interface Happened {
  happening: Happening
  organizationId: number
  projectId?: number
  environmentId?: number
  pullRequest?: { number: number; title: string }
  server?: { id: number; name: string }
  reason: string | null
}

export interface Change {
  db: Db
  /** Delivered after the commit. */
  notify(topic: string): void
  now: number
  /** Written last, right before the commit, so that the chain's lock is held briefly. */
  audits: AuditEntry[]
  /** Rows for the bus, in order; `emit` adds to them. */
  events: NewEvent[]
  /** Become notifications at the end. */
  happened: Happened[]
}
