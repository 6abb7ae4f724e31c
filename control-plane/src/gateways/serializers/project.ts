// Serializes a project to the documented fields. Of secrets only "set" and "since when" appear.
import { readCeilings } from '@berth/shared'
import type { DeployKey, ForgeHostKey, ProjectDetail, WebhookSecret } from '@berth/shared/api'
import type { z } from 'zod'
import type { ForgeHostKeyView } from '../../app/forges/forge-host-keys.ts'
import { defaultBranchOf } from '../../app/forges/repository.ts'
import { projectAuth } from '../../app/projects/basic-auth.ts'
import type { DeployKeyView } from '../../app/projects/deploy-keys.ts'
import type { ProjectView } from '../../app/projects/views.ts'
import type { Context } from '../../context.ts'
import { serializeBasicAuth } from './environment.ts'
import { serializeProject, time, timeOrNull } from './fields.ts'
import { serializeForgeFacts } from './forge.ts'
import { serializeForgeTokenFacts, serializeRepository } from './repository.ts'

const list = (json: string): string[] => JSON.parse(json) as string[]

export function serializeProjectDetail(ctx: Context, view: ProjectView): ProjectDetail {
  const { project: p, ownerName } = view
  const accepted = (p.previousAcceptedUntil ?? 0) > ctx.clock.now()
  return {
    ...serializeProject(view),
    organization_id: p.organizationId,
    status: p.status,
    owner: { id: p.ownerId, name: ownerName },
    default_recipe: p.defaultRecipe,
    default_branch: defaultBranchOf(p),
    default_server_id: p.defaultServerId,
    environment_limit: p.environmentLimit,
    limits: readCeilings(p.ceilings),
    pull_request_environments: p.pullRequestEnvironments === 1,
    pull_request_bases: list(p.pullRequestBases),
    deploy_drafts: p.deployDrafts === 1,
    fork_pull_requests: p.forkPullRequests,
    auto_deploy: p.autoDeploy === 1,
    watch_paths: list(p.watchPaths),
    skip_marker: p.skipMarker === 1,
    comment_on_pull_requests: p.commentOnPullRequests === 1,
    custom_domains: list(p.customDomains),
    lost_after_seconds: Math.round(p.lostAfterMs / 1_000),
    basic_auth: serializeBasicAuth(projectAuth(p)),
    webhook: {
      url: `${ctx.baseUrl}/webhooks/${p.id}`,
      secret_source:
        p.webhookSecretSealed === null && p.legacyWebhookSecretSealed !== null
          ? 'legacy'
          : 'project',
      secret_rotated_at: timeOrNull(p.webhookSecretRotatedAt),
      previous_accepted_until: accepted ? timeOrNull(p.previousAcceptedUntil) : null,
      last_delivery_at: timeOrNull(p.lastDeliveryAt),
      last_delivery_secret: p.lastDeliverySecret,
    },
    repo_public_key: p.deployKeyPublic,
    repository: serializeRepository(p),
    host_token: serializeForgeTokenFacts(p),
    forge: serializeForgeFacts(view.forgeSetup),
    created_at: time(p.createdAt),
    updated_at: time(p.updatedAt),
  }
}

export const serializeForgeHostKey = (view: ForgeHostKeyView): ForgeHostKey => {
  const shown = (keys: ForgeHostKeyView['known']) =>
    keys.map(({ type, fingerprint }) => ({ type, fingerprint }))
  const known = new Set(view.known.map((key) => key.fingerprint))
  return {
    host: view.host,
    trust: view.trust,
    trusted_at: view.trustedAt === null ? null : time(view.trustedAt),
    known: shown(view.known),
    offered: shown(view.offered),
    changed:
      known.size > 0 &&
      view.offered.length > 0 &&
      !view.offered.some((key) => known.has(key.fingerprint)),
    error: view.error && { code: view.error.code, message: view.error.message },
  }
}

export const serializeDeployKey = (key: DeployKeyView): z.infer<typeof DeployKey> => ({
  public_key: key.publicKey,
  fingerprint: key.fingerprint,
  created_at: time(key.createdAt),
  previous: key.previous,
})

/** The only answer that contains the secret. */
export const serializeWebhookSecret = (made: {
  secret: string
  previousAcceptedUntil: number | null
}): z.infer<typeof WebhookSecret> => ({
  secret: made.secret,
  previous_accepted_until: timeOrNull(made.previousAcceptedUntil),
})
