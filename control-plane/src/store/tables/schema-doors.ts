// The tables of what holds for every route: the head of the audit chain, and the keys of repeated requests.
import type { Generated } from 'kysely'

export interface AuditTable {
  id: Generated<number>
  at: number
  organizationId: number | null
  actorType: 'user' | 'agent' | 'webhook' | 'system'
  actorId: string | null
  verb: string
  subjectType: string
  subjectId: string | null
  details: string
  actorName: string | null
  tokenId: number | null
  address: string | null
  requestId: string | null
  subjectName: string | null
  /** Place in the chain; null: written before there was one. */
  seq: number | null
  previousHash: string | null
  hash: string | null
}

export interface AuditHeadTable {
  id: number
  /** The newest row of the chain and its hash; 0 and '' before the first. */
  seq: number
  hash: string
  /** The oldest row that is kept, and the hash that the one before it had. */
  firstSeq: number
  firstPrevious: string
  /** Rows up to here were written before there was a chain. */
  legacyId: number
  /** Over all of the above: who edits the head without the key is noticed. */
  mac: string
}

export interface IdempotencyKeysTable {
  id: Generated<number>
  userId: number
  method: string
  path: string
  key: string
  /** Keyed hash of query, organization and body; the body itself is never stored. */
  fingerprint: string
  startedAt: number
  /** Null: still running. */
  status: number | null
  contentType: string | null
  location: string | null
  /** Null with a status: not kept, because it showed a secret. */
  body: string | null
  madeId: number | null
}
