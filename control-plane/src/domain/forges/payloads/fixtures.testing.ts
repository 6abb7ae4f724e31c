// Recorded deliveries of every forge, for tests: their bytes as they were signed, and how to sign others the same way.
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { PROVIDERS, type Provider } from '@berth/shared'
import { deliveryId, type Parsed, parseDelivery } from './detect.ts'

interface Stored {
  headers: Record<string, string>
  form?: true
  payload: unknown
}

export interface Fixture {
  provider: Provider
  name: string
  headers: Record<string, string>
  body: string
  isForm: boolean
  payload: unknown
}

interface File {
  about: string
  secret: string
  deliveries: Record<string, Stored>
}

const fileOf = (provider: Provider): File => {
  const url = new URL(`./fixtures/${provider.replace('_', '-')}.json`, import.meta.url)
  return JSON.parse(readFileSync(url, 'utf8')) as File
}

/** The secret that signed every stored delivery. */
export const FIXTURE_SECRET = fileOf('github').secret
/** When GitLab signed them. */
export const FIXTURE_TIME = Date.parse('2026-11-15T09:12:29Z')

export const encode = (payload: unknown, isForm: boolean): string => {
  const text = JSON.stringify(payload)
  return isForm ? `payload=${encodeURIComponent(text)}` : text
}

export const FIXTURES: Fixture[] = PROVIDERS.flatMap((provider) =>
  Object.entries(fileOf(provider).deliveries).map(([name, { headers, form, payload }]) => ({
    provider,
    name,
    headers,
    isForm: form === true,
    payload,
    body: encode(payload, form === true),
  })),
)

export function fixture(provider: Provider, name: string): Fixture {
  const found = FIXTURES.find((f) => f.provider === provider && f.name === name)
  if (!found) throw new Error(`no fixture ${provider}/${name}`)
  return found
}

export const parseFixture = (f: Fixture): Parsed =>
  parseDelivery({ ...f, deliveryId: deliveryId(f.provider, f.headers, '0') })

const SIGNATURES =
  /^(x-hub-signature(-256)?|x-(gitea|gogs|forgejo)-signature|webhook-(id|timestamp|signature)|x-gitlab-token)$/

/** The headers that the forge would send with this body, secret and id. */
export function signAs(
  provider: Provider,
  headers: Record<string, string>,
  body: string,
  o: { secret: string; id: string; now: number; isForm?: boolean; token?: boolean },
): Record<string, string> {
  const rest = Object.fromEntries(
    Object.entries(headers).filter(([name]) => !SIGNATURES.test(name)),
  )
  const hex = (text: string) => createHmac('sha256', o.secret).update(text).digest('hex')
  const json = o.isForm ? (new URLSearchParams(body).get('payload') ?? '') : body
  switch (provider) {
    case 'github':
      return { ...rest, 'x-github-delivery': o.id, 'x-hub-signature-256': `sha256=${hex(body)}` }
    case 'gitea':
      return { ...rest, 'x-gitea-delivery': o.id, 'x-gitea-signature': hex(json) }
    case 'forgejo':
      return { ...rest, 'x-forgejo-delivery': o.id, 'x-forgejo-signature': hex(json) }
    case 'bitbucket_cloud':
      return { ...rest, 'x-request-uuid': o.id, 'x-hub-signature': `sha256=${hex(body)}` }
    case 'bitbucket_server':
      return { ...rest, 'x-request-id': o.id, 'x-hub-signature': `sha256=${hex(body)}` }
    case 'gitlab':
      return { ...rest, 'idempotency-key': o.id, ...signGitlab(body, o) }
  }
}

function signGitlab(
  body: string,
  o: { secret: string; id: string; now: number; token?: boolean },
): Record<string, string> {
  if (o.token) return { 'x-gitlab-token': o.secret }
  const stamp = String(Math.floor(o.now / 1_000))
  const key = Buffer.from(o.secret.slice('whsec_'.length), 'base64')
  const digest = createHmac('sha256', key).update(`${o.id}.${stamp}.${body}`).digest('base64')
  return { 'webhook-id': o.id, 'webhook-timestamp': stamp, 'webhook-signature': `v1,${digest}` }
}
