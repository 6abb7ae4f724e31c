// Lines of services and requests for the dashboard: pages over HTTP, new lines over the socket. A message carries the
// position after its lines, and a reconnect resumes there, so no line is lost or shown twice.
import { RUNTIME_LOGS } from '@berth/shared'
import { Id, RuntimeLogCursor, RuntimeLogSelection } from '@berth/shared/api'
import { type TrackedEnvelope, tracked } from '@trpc/server'
import { z } from 'zod'
import { loadEnvironment } from '../../../app/core/access.ts'
import {
  followLog,
  type LogSelection,
  type RuntimeRecord,
  readLogPage,
} from '../../../app/deployments/runtime-logs.ts'
import { giveRuntimeLogTicket } from '../../../app/files/downloads.ts'
import type { Context } from '../../../context.ts'
import type { Admission } from '../../../notifications/admission.ts'
import { serializeTicket } from '../../serializers/dashboard.ts'
import { browserCall, call, router, type SocketContext, watch } from '../base.ts'
import { counted } from '../events.ts'

const Asked = z.strictObject({ environment_id: Id, ...RuntimeLogSelection.shape })

const toSelection = (asked: z.infer<typeof RuntimeLogSelection>): LogSelection => ({
  log: asked.log,
  services: asked.services ?? [],
  levels: asked.levels ?? [],
  statuses: asked.statuses ?? [],
  search: asked.q ?? '',
  since: asked.since === undefined ? undefined : new Date(asked.since),
  until: asked.until === undefined ? undefined : new Date(asked.until),
})

type Message = { records: RuntimeRecord[] }

interface Watcher {
  ctx: Context
  admission: Admission
  socket: SocketContext
}

async function* stream(
  { ctx, admission, socket }: Watcher,
  organizationId: number,
  asked: z.infer<typeof RuntimeLogSelection> & { environment_id: number },
  request: { after: string; signal: AbortSignal },
): AsyncGenerator<TrackedEnvelope<Message>, void> {
  const { environment_id: id, ...selection } = asked
  const { signal } = request
  let before = request.after
  const live = followLog(ctx, admission.caller, id, toSelection(selection), request)
  for await (const { records, cursor } of live) {
    await admission.require(organizationId, false)
    if (records.length > 0 || cursor !== before) yield tracked(cursor || '-', { records })
    before = cursor
    await socket.drained(signal)
  }
}

export const runtimeLogRouter = router({
  page: call
    .input(
      z.strictObject({
        ...Asked.shape,
        before: RuntimeLogCursor.min(1).optional(),
        after: RuntimeLogCursor.optional(),
        limit: z.int().min(1).max(RUNTIME_LOGS.lines).optional(),
      }),
    )
    .query(async ({ ctx: { ctx, caller }, input, signal = new AbortController().signal }) => {
      const { environment_id: id, before, after, limit, ...selection } = input
      const page = await readLogPage(ctx, caller, id, toSelection(selection), {
        ...(before === undefined ? {} : { before }),
        ...(after === undefined ? {} : { after }),
        limit: limit ?? RUNTIME_LOGS.defaultLines,
        signal,
      })
      const { older, newer, isLast, searchedTo, records } = page
      return { records, older, newer, is_last: isLast, searched_to: searchedTo }
    }),
  lines: watch
    .input(
      z.strictObject({
        ...Asked.shape,
        after: RuntimeLogCursor,
        /** tRPC adds it on reconnect. */
        lastEventId: RuntimeLogCursor.optional(),
      }),
    )
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      await ctx.admission.check()
      const { caller } = ctx.admission
      const { after, lastEventId, ...asked } = input
      const { organizationId } = await loadEnvironment(
        ctx.ctx.db,
        caller,
        asked.environment_id,
        'read',
      )
      const from = lastEventId === undefined || lastEventId === '-' ? after : lastEventId
      return counted(ctx.socket, stream(ctx, organizationId, asked, { after: from, signal }))
    }),
  ticket: browserCall
    .input(Asked)
    .mutation(async ({ ctx: { ctx, caller }, input, signal = new AbortController().signal }) => {
      const { environment_id: id, ...selection } = input
      return serializeTicket(
        await giveRuntimeLogTicket(ctx, caller, id, toSelection(selection), signal),
      )
    }),
})
