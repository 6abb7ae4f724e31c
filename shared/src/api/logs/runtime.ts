// Lines of running services and of the proxy's request log, by pages and live.
import { z } from 'zod'
import { RUNTIME_LOGS } from '../../limits/service-logs.ts'
import { LOG_LEVEL_FILTERS, LOG_LEVELS, STATUS_CLASSES } from '../../logs/lines.ts'

const one = <T extends z.ZodType>(item: T, most: number) =>
  z.union([item, z.array(item).max(most)]).optional()
const ServiceName = z.string().min(1).max(64)
const Time = z.iso.datetime({ offset: true })
const Cursor = z.string().max(RUNTIME_LOGS.cursorChars)

/** Which log, which lines of it, and from where. */
export const RuntimeLogQuery = z.object({
  log: z.enum(['services', 'requests']).optional(),
  service: one(ServiceName, RUNTIME_LOGS.services),
  level: one(z.enum(LOG_LEVEL_FILTERS), LOG_LEVEL_FILTERS.length),
  status: one(z.enum(STATUS_CLASSES), STATUS_CLASSES.length),
  q: z.string().max(RUNTIME_LOGS.searchChars).optional(),
  since: Time.optional(),
  until: Time.optional(),
  before: Cursor.min(1).optional(),
  after: Cursor.optional(),
  limit: z.coerce.number().int().min(1).max(RUNTIME_LOGS.lines).optional(),
  follow: z.enum(['true', 'false']).optional(),
})
export type RuntimeLogQuery = z.infer<typeof RuntimeLogQuery>

/** One line that a service wrote. */
export const RuntimeLogLine = z.object({
  t: z.string(),
  s: z.enum(['out', 'err']),
  service: z.string(),
  task: z.int(),
  level: z.enum(LOG_LEVELS).nullable(),
  text: z.string(),
})
/** One request that the proxy answered. */
export const RuntimeLogRequest = z.object({
  t: z.string(),
  method: z.string(),
  host: z.string(),
  path: z.string(),
  status: z.int(),
  duration_ms: z.number(),
  size: z.int(),
  client: z.string(),
  service: z.string(),
})
/** Days of the asked time that are no longer stored. */
export const RuntimeLogGone = z.object({
  kind: z.literal('gone'),
  service: z.string(),
  days: z.string(),
})
/** The end of a page, and where to continue. */
export const RuntimeLogPage = z.object({
  kind: z.literal('page'),
  older: z.string().nullable(),
  newer: z.string(),
  is_last: z.boolean(),
  searched_to: z.string().nullable(),
})

export const RuntimeLogRecord = z.union([
  RuntimeLogLine,
  RuntimeLogRequest,
  RuntimeLogGone,
  RuntimeLogPage,
])

/** The same selection for the dashboard, where lists are lists. */
export const RuntimeLogSelection = z.strictObject({
  log: z.enum(['services', 'requests']),
  services: z.array(ServiceName).max(RUNTIME_LOGS.services).optional(),
  levels: z.array(z.enum(LOG_LEVEL_FILTERS)).max(LOG_LEVEL_FILTERS.length).optional(),
  statuses: z.array(z.enum(STATUS_CLASSES)).max(STATUS_CLASSES.length).optional(),
  q: z.string().max(RUNTIME_LOGS.searchChars).optional(),
  since: Time.optional(),
  until: Time.optional(),
})
export type RuntimeLogSelection = z.infer<typeof RuntimeLogSelection>

export const RuntimeLogCursor = Cursor
