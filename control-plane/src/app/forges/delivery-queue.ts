// The queue of deliveries. A verified delivery is first committed as a row and then decided in one transaction, so a
// crash in between loses nothing. Each is decided once, even if the tick and its request meet. Payloads are parsed
// before the transaction, and no network work happens in it.
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { Provider } from '@berth/shared'
import { AppError, type DeliveryOutcome, type DeliveryRule } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { deliveryId, type HookHeaders, parseDelivery } from '../../domain/forges/payloads/detect.ts'
import {
  eventName,
  type NormalisedEvent,
  type PullRequestEvent,
  type PushEvent,
} from '../../domain/forges/payloads/event.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import {
  countTry,
  type Delivery,
  findDecided,
  findDelivery,
  insertDelivery,
  listOpenDeliveries,
  lockOpenDelivery,
  updateDelivery,
  wasSeen,
} from '../../store/forges/webhook-deliveries.ts'
import { findProject, lockProject, type Project } from '../../store/projects/projects.ts'
import { audit } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, changeUnlessTaken, deliveryTopic, emit } from '../core/transaction.ts'
import { isWorthWaiting, lookForEvent, orderEvent, type Sight } from './branch-looks.ts'
import {
  type AppliedEvent,
  alone,
  applyAccepted,
  judgeDelivery,
  type Understood,
} from './forge-events.ts'
import { noteDelivery, type Verified } from './webhook-secrets.ts'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

interface VerifiedDelivery {
  projectId: number
  provider: Provider
  headers: HookHeaders
  body: Buffer
  isForm: boolean
  verified: Verified
}

/** Headers that describe the delivery; all others, above all credentials, are not stored. */
const KEPT = new RegExp(
  '^(content-type|user-agent|idempotency-key|webhook-(id|timestamp)|x-attempt-number|x-event-(key|time)|' +
    'x-hook-uuid|x-request-(id|uuid)|x-(github|gitlab|gitea|gogs|forgejo)-' +
    '(event|event-type|event-uuid|delivery|hook-id|instance|webhook-uuid))$',
)

const keptHeaders = (headers: HookHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers)
      .filter((entry): entry is [string, string] => entry[1] !== undefined && KEPT.test(entry[0]))
      .map(([name, value]) => [name, value.slice(0, 500)]),
  )

interface Facts {
  event: string
  actor: string | null
  branch: string | null
  pullRequestNumber: number | null
  sha: string | null
}

function factsOf(event: NormalisedEvent | null): Facts {
  const common = { actor: event?.actor?.name ?? null, event: event ? eventName(event) : 'unknown' }
  if (event?.kind === 'pull_request') {
    const { number, head_branch, head_sha } = event.pull_request
    return { ...common, branch: head_branch, pullRequestNumber: number, sha: head_sha }
  }
  const [first] = event?.kind === 'push' ? event.changes : []
  const branch = first?.branch ?? null
  return { ...common, branch, pullRequestNumber: null, sha: first?.sha ?? null }
}

/** Commits the row. The request that brought it, or the next tick, decides it. */
export async function recordDelivery(ctx: Context, given: VerifiedDelivery): Promise<number> {
  const { projectId, provider, headers, body } = given
  const bodySha256 = createHash('sha256').update(body).digest('hex')
  const id = deliveryId(provider, headers, bodySha256)
  const parsed = parseDelivery({
    provider,
    headers,
    deliveryId: id,
    body: body.toString('utf8'),
    isForm: given.isForm,
  })
  const event = parsed.ok ? parsed.event : null
  const isKept = body.length <= WEBHOOKS.keptBodyBytes && !(await wasSeen(ctx.db, projectId, id))
  const stored = isKept ? (await compress(body)).toString('base64') : null
  return change(ctx, async (c) => {
    const project = await findProject(c.db, projectId)
    if (!project) throw new AppError('invalid_signature', 'The signature is not valid.')
    const signedWith = await noteDelivery(c, project, given.verified)
    c.notify(deliveryTopic(projectId))
    return insertDelivery(c.db, {
      organizationId: project.organizationId,
      projectId,
      provider,
      deliveryId: id,
      receivedAt: c.now,
      decidedAt: null,
      ...factsOf(event),
      signedWith,
      outcome: 'received',
      rule: null,
      reason: parsed.ok ? null : parsed.where,
      responseStatus: 202,
      headers: JSON.stringify(keptHeaders(headers)),
      normalised: event && JSON.stringify(event),
      bodySha256,
      bodyBytes: body.length,
      body: stored,
    })
  })
}

/** Rows that this process is deciding now: a check of a branch may outlast the tick's interval. */
const underWay = new WeakMap<Context, Set<number>>()

/** Decides one row, once. Throws on failure; the row stays in the queue. */
export async function decideRow(ctx: Context, id: number): Promise<void> {
  const busy = underWay.get(ctx) ?? new Set<number>()
  underWay.set(ctx, busy)
  if (busy.has(id)) return
  busy.add(id)
  try {
    const tries = await countTry(ctx.db, id)
    if (tries !== undefined) await decideWithLooks(ctx, id, tries)
  } finally {
    busy.delete(id)
  }
}

/** An event that does not follow from the known state is decided after a check of the branch, on the state then. */
async function decideWithLooks(ctx: Context, id: number, tries: number): Promise<void> {
  let sight: Sight | undefined
  for (let looks = 0; looks <= WEBHOOKS.looks; looks++) {
    const doubt = await changeUnlessTaken(ctx, (c) => decideOnce(ctx, c, id, sight))
    if (!doubt) return
    const { project, event, known } = doubt
    const { seen, failure } = await lookForEvent(ctx, project, event)
    if (failure && isWorthWaiting(failure, tries)) {
      const reason = `The commit does not follow from what is known, so the branch is looked at first. ${failure.message} It is tried again soon.`
      await updateDelivery(ctx.db, id, { reason })
      return
    }
    sight = { known, seen }
  }
  throw new Error('what is known changed with every look')
}

interface Doubt {
  project: Project
  event: PushEvent | PullRequestEvent
  known: string
}

/** Undefined if it is decided. Otherwise nothing was changed, and the branch must be checked. */
async function decideOnce(
  ctx: Context,
  c: Change,
  id: number,
  sight: Sight | undefined,
): Promise<Doubt | undefined> {
  const peek = await findDelivery(c.db, id)
  if (!peek || peek.decidedAt !== null) return undefined
  // project before row: this serializes all decisions of a project
  const project = await lockProject(c.db, peek.projectId)
  const row = await lockOpenDelivery(c.db, id)
  if (!row) return undefined
  if (!project) {
    await settle(c, row, undefined, GONE)
    return undefined
  }
  const judged = judgeDelivery(project, await understand(c, row), 'event')
  if (!('match' in judged)) {
    await settle(c, row, project, judged)
    return undefined
  }
  const ordered = await orderEvent(c, project, judged.event, sight)
  if (ordered.kind === 'look') return { project, event: judged.event, known: ordered.known }
  if (ordered.kind === 'nothing') {
    await settle(c, row, project, alone(ordered.decision))
    return undefined
  }
  const by = { type: 'webhook', name: row.actor ?? row.provider, deliveryId: row.id } as const
  const { event, looked } = ordered
  const o = { by, trigger: 'webhook', origin: 'event', looked } as const
  await settle(c, row, project, await applyAccepted(ctx, c, project, { ...judged, event }, o))
  return undefined
}

async function understand(c: Change, row: Delivery): Promise<Understood> {
  const since = c.now - WEBHOOKS.duplicateMs
  const earlier = row.replayOf === null ? await findDecided(c.db, row, since) : undefined
  return {
    event: row.normalised === null ? null : readEvent(row.normalised),
    where: row.reason ?? 'its shape is not known',
    earlier: earlier && {
      id: earlier.id,
      outcome: earlier.outcome as DeliveryOutcome,
      rule: earlier.rule as DeliveryRule | null,
      reason: earlier.reason,
    },
  }
}

/** An event stored by an earlier version may lack newer fields. */
function readEvent(stored: string): NormalisedEvent {
  const event = JSON.parse(stored) as NormalisedEvent
  if (event.kind !== 'pull_request') return event
  return {
    ...event,
    pull_request: { ...event.pull_request, before: event.pull_request.before ?? null },
  }
}

const GONE: AppliedEvent = {
  outcome: 'ignored',
  rule: 'project_deleting',
  reason: 'The project is gone.',
  results: [],
  taskIds: [],
}

async function settle(
  c: Change,
  row: Delivery,
  project: Project | undefined,
  applied: AppliedEvent,
): Promise<void> {
  const { outcome, rule, reason, results } = applied
  await updateDelivery(c.db, row.id, {
    decidedAt: c.now,
    outcome,
    rule,
    reason,
    results: JSON.stringify(results),
    error: null,
  })
  if (!project) return
  const { organizationId, id: projectId } = project
  const about = { outcome, rule, event: row.event }
  if (outcome !== 'ignored' && outcome !== 'duplicate') {
    const by = { type: 'webhook', name: row.actor ?? row.provider, deliveryId: row.id } as const
    await audit(c, by, organizationId, 'delivery.apply', ['delivery', row.id], about)
  }
  emit(c, { organizationId, projectId }, 'delivery.created', { id: row.id, ...about })
}

/** Retries undecided deliveries; gives up visibly after the last try. */
export async function decideOpenDeliveries(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  const due = (await listOpenDeliveries(ctx.db, WEBHOOKS.batch)).filter((row) => {
    const wait = WEBHOOKS.retryMs[Math.min(row.tries, WEBHOOKS.retryMs.length - 1)] ?? 0
    return now - row.receivedAt >= wait && !underWay.get(ctx)?.has(row.id)
  })
  // concurrently: each may wait for a check, and the project lock serializes them anyway
  await Promise.all(
    due.map((row) => {
      const isLast = row.tries >= WEBHOOKS.tries
      return (isLast ? giveUp(ctx, row.id) : decideRow(ctx, row.id)).catch((error: unknown) =>
        ctx.log.error({ err: error, delivery: row.id }, 'a delivery could not be decided'),
      )
    }),
  )
}

async function giveUp(ctx: Context, id: number): Promise<void> {
  const reason = `It could not be decided in ${WEBHOOKS.tries} tries. Redeliver it from the project's page.`
  await change(ctx, async (c) => {
    const row = await lockOpenDelivery(c.db, id)
    if (!row) return
    const error = 'The control plane failed to decide it; its log says why.'
    await updateDelivery(c.db, id, {
      decidedAt: c.now,
      outcome: 'error',
      rule: 'undecided',
      reason,
      error,
    })
    const { organizationId, projectId } = row
    emit(c, { organizationId, projectId }, 'delivery.created', { id, outcome: 'error' })
  })
  ctx.log.error({ delivery: id }, 'a delivery was given up')
}

/** The body as received; null if it is not or no longer stored. */
export async function readBody(row: Delivery): Promise<string | null> {
  if (row.body === null) return null
  const bytes = await decompress(Buffer.from(row.body, 'base64'), {
    maxOutputLength: WEBHOOKS.keptBodyBytes,
  })
  return bytes.toString('utf8')
}

const whereOf = (reason: string | null): string =>
  (reason ?? '').replace(/^The payload was not understood: /, '').replace(/\.$/, '')

/** Stores the event as a new row, to be decided against the present state. A replay is not refused as a duplicate. */
export async function insertReplay(c: Change, row: Delivery, caller: Caller): Promise<number> {
  const { id: _, tries: __, results: ___, ...rest } = row
  return insertDelivery(c.db, {
    ...rest,
    actor: caller.name,
    receivedAt: c.now,
    decidedAt: null,
    outcome: 'received',
    rule: null,
    reason: row.rule === 'malformed_payload' ? whereOf(row.reason) : null,
    replayOf: row.id,
    responseStatus: 202,
    error: null,
    body: null,
  })
}
