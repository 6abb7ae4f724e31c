// The secret that authenticates a project's forge. A new one replaces the former without a gap: the former is accepted
// until the forge has used the new one, at most a day. A secret from before projects had their own (legacy) has no such
// limit. A secret is shown once, in the answer that created it.
import { randomBytes } from 'node:crypto'
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { Place } from '../../keys/secret-store.ts'
import { WEBHOOK_SECRETS } from '../../limits/forges.ts'
import { askForInstall } from '../../store/forges/connections.ts'
import {
  endFormerSecrets,
  listProjectsWithoutSecret,
  updateWebhookSecrets,
} from '../../store/forges/webhook-secrets.ts'
import { lockProject, type Project } from '../../store/projects/projects.ts'
import { loadOwnedProject } from '../core/access.ts'
import { audit, auditCaller, BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'

export type SignedWith = 'current' | 'previous' | 'legacy'

/** Secrets that verify a delivery now. */
type WebhookSecrets = Partial<Record<SignedWith, string>>

type Row = Pick<
  Project,
  | 'id'
  | 'organizationId'
  | 'webhookSecretSealed'
  | 'previousWebhookSecretSealed'
  | 'previousAcceptedUntil'
  | 'legacyWebhookSecretSealed'
>

const COLUMNS: Record<SignedWith, string> = {
  current: 'webhook_secret_sealed',
  previous: 'previous_webhook_secret_sealed',
  legacy: 'legacy_webhook_secret_sealed',
}

export const webhookSecretPlace = (
  project: { id: number; organizationId: number },
  kind: SignedWith,
): Place => ({
  table: 'projects',
  column: COLUMNS[kind],
  organizationId: project.organizationId,
  rowId: project.id,
})

/** Newest first, so that a delivery that matches two counts for the newest. */
export async function readWebhookSecrets(ctx: Context, project: Row): Promise<WebhookSecrets> {
  const found: Partial<Record<SignedWith, string>> = {}
  const read = async (kind: SignedWith, sealed: string | null): Promise<void> => {
    if (sealed === null) return
    const place = webhookSecretPlace(project, kind)
    found[kind] = Buffer.from(
      await ctx.secretStore.open('webhook-secret', place, sealed),
    ).toString()
  }
  const accepted = (project.previousAcceptedUntil ?? 0) > ctx.clock.now()
  await read('current', project.webhookSecretSealed)
  await read('previous', accepted ? project.previousWebhookSecretSealed : null)
  await read('legacy', project.legacyWebhookSecretSealed)
  return found
}

/** Which secret verified a delivery, and which one was current then. */
export interface Verified {
  signedWith: SignedWith
  currentSealed: string | null
}

/**
 * Records a verified delivery; the first one with the new secret ends the former ones. If the secret was replaced
 * after the verification, the delivery counts for the former one and ends nothing.
 */
export async function noteDelivery(
  c: Change,
  project: { id: number },
  { signedWith, currentSealed }: Verified,
): Promise<SignedWith> {
  const isCurrent =
    signedWith === 'current' &&
    (await endFormerSecrets(c.db, project.id, currentSealed, {
      ...NO_FORMER,
      lastDeliveryAt: c.now,
      lastDeliverySecret: signedWith,
    }))
  if (isCurrent) return signedWith
  const by = signedWith === 'current' ? 'previous' : signedWith
  const change = { lastDeliveryAt: c.now, lastDeliverySecret: by }
  await updateWebhookSecrets(c.db, project.id, change)
  return by
}

const NO_FORMER = {
  previousWebhookSecretSealed: null,
  previousAcceptedUntil: null,
  legacyWebhookSecretSealed: null,
}

/** GitLab's signing field takes it as it is; every other forge uses the whole text as key. */
const makeSecret = (): string => `whsec_${randomBytes(WEBHOOK_SECRETS.bytes).toString('base64')}`

const seal = (ctx: Context, at: Place, secret: string): string =>
  ctx.secretStore.seal('webhook-secret', at, Buffer.from(secret))

/** The secret of a new project; the caller shows it once. */
export async function giveWebhookSecret(
  ctx: Context,
  c: Change,
  project: { id: number; organizationId: number },
): Promise<string> {
  const secret = makeSecret()
  await updateWebhookSecrets(c.db, project.id, {
    webhookSecretSealed: seal(ctx, webhookSecretPlace(project, 'current'), secret),
    webhookSecretRotatedAt: c.now,
  })
  return secret
}

interface MadeSecret {
  secret: string
  previousAcceptedUntil: number | null
}

export async function regenerateWebhookSecret(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<MadeSecret> {
  await loadOwnedProject(ctx.db, caller, projectId)
  return change(ctx, async (c) => {
    const project = await lockProject(c.db, projectId)
    if (!project) throw new AppError('not_found', 'It was just removed.')
    const former = (await readWebhookSecrets(ctx, project)).current
    const secret = await giveWebhookSecret(ctx, c, project)
    const until = former === undefined ? null : c.now + WEBHOOK_SECRETS.previousMs
    if (former !== undefined) {
      await updateWebhookSecrets(c.db, projectId, {
        previousWebhookSecretSealed: seal(ctx, webhookSecretPlace(project, 'previous'), former),
        previousAcceptedUntil: until,
      })
    }
    await askForInstall(c.db, projectId, c.now)
    const { organizationId } = project
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, organizationId, 'project.webhook_secret', subject)
    emit(c, { organizationId, projectId }, 'project.updated', {})
    return { secret, previousAcceptedUntil: until }
  })
}

/** For a leaked secret: the former one is refused immediately. */
export async function endPreviousSecret(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<void> {
  await loadOwnedProject(ctx.db, caller, projectId)
  await change(ctx, async (c) => {
    const project = await lockProject(c.db, projectId)
    const accepted = (project?.previousAcceptedUntil ?? 0) > c.now
    const legacy = project?.webhookSecretSealed && project.legacyWebhookSecretSealed
    if (!project || (!accepted && !legacy)) {
      throw new AppError('not_found', 'No former secret of this project is accepted.')
    }
    await updateWebhookSecrets(c.db, projectId, NO_FORMER)
    const { organizationId } = project
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, organizationId, 'project.webhook_secret_end', subject)
    emit(c, { organizationId, projectId }, 'project.updated', {})
  })
}

/** At start: projects from before each had its own secret keep the one that their forges know. */
export async function importLegacySecret(ctx: Context): Promise<void> {
  const secret = ctx.config.legacyWebhookSecret
  if (!secret) return
  await change(ctx, async (c) => {
    for (const project of await listProjectsWithoutSecret(c.db)) {
      await updateWebhookSecrets(c.db, project.id, {
        legacyWebhookSecretSealed: seal(ctx, webhookSecretPlace(project, 'legacy'), secret),
      })
      const subject: [string, number] = ['project', project.id]
      await audit(c, BERTH, project.organizationId, 'project.webhook_secret_import', subject)
    }
  })
}
