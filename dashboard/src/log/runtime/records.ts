// What a page of a runtime log contains, as the server sends it.
import type { api } from '../../api.ts'

type Ask = typeof api.runtimeLog.page.query
export type RuntimeRecord = Awaited<ReturnType<Ask>>['records'][number]
export type RuntimeSelection = Omit<Parameters<Ask>[0], 'before' | 'after' | 'limit'>

type Line = Extract<RuntimeRecord, { text: string }>
type Request = Extract<RuntimeRecord, { method: string }>

export const isLine = (record: RuntimeRecord): record is Line => 'text' in record
export const isRequest = (record: RuntimeRecord): record is Request => 'method' in record

/** When it was written; undefined for a note about lines that are gone. */
export const timeOf = (record: RuntimeRecord): string | undefined =>
  'kind' in record ? undefined : record.t
