// Serializes an audit row for users and programs.
import type { AuditEntry } from '@berth/shared/api'
import type { AuditRow } from '../../store/core/audit.ts'
import { time } from './fields.ts'

const idOf = (id: string | null): number | string | null =>
  id !== null && /^[1-9]\d{0,14}$/.test(id) ? Number(id) : id

export const serializeAudit = (row: AuditRow): AuditEntry => ({
  id: row.id,
  at: time(row.at),
  organization_id: row.organizationId,
  actor: { type: row.actorType, id: idOf(row.actorId), name: row.actorName },
  token_id: row.tokenId,
  address: row.address,
  verb: row.verb,
  subject: { type: row.subjectType, id: idOf(row.subjectId), name: row.subjectName },
  changes: JSON.parse(row.details) as Record<string, unknown>,
  request_id: row.requestId,
})
