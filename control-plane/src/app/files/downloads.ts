// Downloads for browsers, by ticket: it says which user may fetch what, once, for a minute, at any control plane. A
// ticket is issued after every check that can refuse, so that a refusal appears as a sentence on the page and not as a
// file. Using the ticket checks access again.
import { randomBytes } from 'node:crypto'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { hashToken } from '../../identity/tokens.ts'
import { DOWNLOADS } from '../../limits/browser.ts'
import { insertCode, takeCode } from '../../store/core/one-use-codes.ts'
import { missing } from '../core/access.ts'
import { change } from '../core/transaction.ts'
import { type LogView, openTaskLog } from '../deployments/logs.ts'
import { type LogSelection, readLogPage, writeLogText } from '../deployments/runtime-logs.ts'
import { recordServiceLogsRead } from '../deployments/service-logs.ts'
import { openArtifactContent } from './artifacts.ts'

export type Download =
  | { kind: 'log'; taskId: number; isShown: boolean }
  | { kind: 'artifact'; artifactId: number }
  | { kind: 'runtime_log'; environmentId: number; selection: LogSelection }

export interface TicketView {
  /** Path on this installation. */
  path: string
  expiresAt: number
}

async function giveTicket(ctx: Context, caller: Caller, download: Download): Promise<TicketView> {
  const ticket = randomBytes(32).toString('base64url')
  const { ticketMs, ticketsPerUser } = DOWNLOADS
  const expiresAt = await change(ctx, async ({ db, now }) => {
    const code = {
      hash: hashToken(ticket),
      kind: 'download' as const,
      holder: String(caller.userId),
      body: JSON.stringify(download),
      expiresAt: now + ticketMs,
    }
    await insertCode(db, code, { perHolder: ticketsPerUser, now })
    return code.expiresAt
  })
  return { path: `/downloads/${ticket}`, expiresAt }
}

/** `isShown`: the browser displays it instead of saving it. */
export async function giveLogTicket(
  ctx: Context,
  caller: Caller,
  taskId: number,
  isShown: boolean,
): Promise<TicketView> {
  await openTaskLog(ctx, caller, taskId)
  return giveTicket(ctx, caller, { kind: 'log', taskId, isShown })
}

/** Asks the server whether it still has exactly this file. */
export async function giveArtifactTicket(
  ctx: Context,
  caller: Caller,
  artifactId: number,
  signal: AbortSignal,
): Promise<TicketView> {
  await openArtifactContent(ctx, caller, artifactId, { statOnly: true, signal })
  return giveTicket(ctx, caller, { kind: 'artifact', artifactId })
}

/** Asks the server for one line, so that an offline server is a sentence on the page. */
export async function giveRuntimeLogTicket(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  selection: LogSelection,
  signal: AbortSignal,
): Promise<TicketView> {
  await readLogPage(ctx, caller, environmentId, { ...selection, search: '' }, { limit: 1, signal })
  return giveTicket(ctx, caller, { kind: 'runtime_log', environmentId, selection })
}

export async function takeTicket(ctx: Context, caller: Caller, ticket: string): Promise<Download> {
  const asked = {
    kind: 'download',
    holder: String(caller.userId),
    hash: hashToken(ticket),
  } as const
  const found = await change(ctx, ({ db, now }) => takeCode(db, { ...asked, now }))
  if (found === undefined) throw missing()
  return JSON.parse(found, toDate) as Download
}

/** JSON has no dates; these are the only two of a selection. */
const toDate = (key: string, value: unknown): unknown =>
  (key === 'since' || key === 'until') && typeof value === 'string' ? new Date(value) : value

interface LogDownload {
  name: string
  bytes: number
  content: AsyncIterable<Buffer>
}

async function* nothing(): AsyncGenerator<Buffer> {}

/** As much of the log as is final now. */
export async function openLogDownload(
  ctx: Context,
  caller: Caller,
  taskId: number,
): Promise<LogDownload> {
  const { attempt }: LogView = await openTaskLog(ctx, caller, taskId)
  const bytes = attempt?.logBytes ?? 0
  const content = attempt && bytes > 0 ? ctx.logs.read(attempt.id, 0, bytes) : nothing()
  return { name: `task-${taskId}.log`, bytes, content }
}

/** Streams the lines; its size is not known before. */
export async function openRuntimeLogDownload(
  ctx: Context,
  caller: Caller,
  { environmentId, selection }: { environmentId: number; selection: LogSelection },
  signal: AbortSignal,
): Promise<{ name: string; content: AsyncIterable<string> }> {
  const { log, services } = selection
  await recordServiceLogsRead(ctx, caller, environmentId, { log, services, follow: false })
  const content = writeLogText(ctx, caller, environmentId, selection, { signal })
  return { name: `environment-${environmentId}-${log}.log`, content }
}
