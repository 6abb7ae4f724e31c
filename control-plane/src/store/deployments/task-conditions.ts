// Conditions on a task's status as literal SQL text. Both databases use the partial indexes of open and ended tasks
// (0013-speed) only for a statement that repeats the index's condition literally.
import { type SqlBool, sql } from 'kysely'

export const isOpen = sql<SqlBool>`tasks.status in ('queued', 'running')`
export const isQueued = sql<SqlBool>`tasks.status = 'queued'`
export const hasEnded = sql<SqlBool>`tasks.status in ('succeeded', 'failed', 'canceled')`
