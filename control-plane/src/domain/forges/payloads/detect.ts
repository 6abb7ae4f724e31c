// Detects the forge and the delivery's id by the headers alone. The order matters: Forgejo also sends Gitea's headers,
// and both also send GitHub's. PURE.
import type { Provider } from '@berth/shared'
import { parseBitbucketCloud } from './bitbucket-cloud.ts'
import { parseBitbucketServer } from './bitbucket-server.ts'
import type { NormalisedEvent } from './event.ts'
import { parseGitea } from './gitea.ts'
import { parseGithub } from './github.ts'
import { parseGitlab } from './gitlab.ts'
import { MalformedPayload, type Parser } from './payload.ts'

export type HookHeaders = Readonly<Record<string, string | undefined>>

export function detectProvider(headers: HookHeaders): Provider | undefined {
  if (headers['x-forgejo-event'] !== undefined) return 'forgejo'
  if (headers['x-gitea-event'] !== undefined) return 'gitea'
  if (headers['x-github-event'] !== undefined) return 'github'
  if (headers['x-gitlab-event'] !== undefined) return 'gitlab'
  const key = headers['x-event-key']
  if (key === undefined) return undefined
  if (/^(repo:refs_changed$|pr:|diagnostics:ping$)/.test(key)) return 'bitbucket_server'
  if (/^(repo:push$|pullrequest:)/.test(key)) return 'bitbucket_cloud'
  // both send other keys; only Cloud names the hook
  return headers['x-hook-uuid'] === undefined ? 'bitbucket_server' : 'bitbucket_cloud'
}

const ID_HEADERS: Record<Provider, readonly string[]> = {
  github: ['x-github-delivery'],
  gitlab: ['idempotency-key', 'webhook-id', 'x-gitlab-event-uuid'],
  gitea: ['x-gitea-delivery'],
  forgejo: ['x-forgejo-delivery'],
  bitbucket_cloud: ['x-request-uuid'],
  bitbucket_server: ['x-request-id'],
}

/** If the forge sends no id, equal bytes are one delivery. */
export function deliveryId(provider: Provider, headers: HookHeaders, bodySha256: string): string {
  for (const name of ID_HEADERS[provider]) {
    const value = headers[name]?.trim()
    if (value !== undefined && /^[\x21-\x7e]{1,200}$/.test(value)) return value
  }
  return `sha256:${bodySha256}`
}

const PARSERS: Record<Provider, Parser> = {
  github: parseGithub,
  gitlab: parseGitlab,
  gitea: parseGitea,
  forgejo: parseGitea,
  bitbucket_cloud: parseBitbucketCloud,
  bitbucket_server: parseBitbucketServer,
}

export type Parsed = { ok: true; event: NormalisedEvent } | { ok: false; where: string }

/** The JSON inside a body: the body itself, or the `payload` field of a form. */
export function payloadText(body: string, isForm: boolean): string | undefined {
  return isForm ? (new URLSearchParams(body).get('payload') ?? undefined) : body
}

export function parseDelivery(delivery: {
  provider: Provider
  headers: HookHeaders
  deliveryId: string
  body: string
  isForm: boolean
}): Parsed {
  const text = payloadText(delivery.body, delivery.isForm)
  if (text === undefined) return { ok: false, where: 'the form has no field "payload"' }
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return { ok: false, where: 'the body is not JSON' }
  }
  try {
    return { ok: true, event: PARSERS[delivery.provider]({ ...delivery, body }) }
  } catch (error) {
    if (error instanceof MalformedPayload) return { ok: false, where: error.message }
    throw error
  }
}
