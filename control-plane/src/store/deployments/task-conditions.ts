// Words about a task's status that stand in the statement's text, not among its values: the partial indexes of what is
// open and of what has ended (0013-speed) are used only by a statement that says exactly the same.
import { type SqlBool, sql } from 'kysely'

export const isOpen = sql<SqlBool>`tasks.status in ('queued', 'running')`
export const isQueued = sql<SqlBool>`tasks.status = 'queued'`
export const hasEnded = sql<SqlBool>`tasks.status in ('succeeded', 'failed', 'canceled')`
