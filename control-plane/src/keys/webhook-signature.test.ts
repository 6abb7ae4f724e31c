// Signatures: another implementation signed the stored deliveries; every variation of them is refused.
import { createHmac } from 'node:crypto'
import type { Provider } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { detectProvider } from '../domain/forges/payloads/detect.ts'
import {
  FIXTURE_SECRET,
  FIXTURE_TIME,
  FIXTURES,
  type Fixture,
  fixture,
  signAs,
} from '../domain/forges/payloads/fixtures.testing.ts'
import { type HookSecrets, verifySignature } from './webhook-signature.ts'

const verify = (
  f: Fixture,
  secrets: HookSecrets = { current: FIXTURE_SECRET },
  over: { headers?: Record<string, string | undefined>; body?: string; now?: number } = {},
) => {
  const headers = { ...f.headers, ...over.headers }
  return verifySignature(
    {
      provider: detectProvider(headers),
      headers,
      body: Buffer.from(over.body ?? f.body),
      isForm: f.isForm,
      now: over.now ?? FIXTURE_TIME,
    },
    secrets,
  )
}

const OTHER = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
/** The one header that counts for each forge. */
const CREDENTIALS: Record<Provider, RegExp> = {
  github: /^x-hub-signature-256$/,
  gitlab: /^(webhook-signature|x-gitlab-token)$/,
  gitea: /^x-gitea-signature$/,
  forgejo: /^x-forgejo-signature$/,
  bitbucket_cloud: /^x-hub-signature$/,
  bitbucket_server: /^x-hub-signature$/,
}

describe.each(FIXTURES.map((f) => [`${f.provider} ${f.name}`, f] as const))('%s', (_, f) => {
  const credential = Object.keys(f.headers).filter((name) => CREDENTIALS[f.provider].test(name))

  test('is what it is', () => {
    expect(verify(f)).toBe('current')
    expect(verify(f, { current: OTHER, previous: FIXTURE_SECRET })).toBe('previous')
    expect(verify(f, { current: OTHER, legacy: FIXTURE_SECRET })).toBe('legacy')
  })

  test('no, empty, truncated, changed: refused', () => {
    const each = (change: (value: string) => string | undefined) =>
      Object.fromEntries(credential.map((name) => [name, change(f.headers[name] ?? '')]))
    for (const change of [
      () => undefined,
      () => '',
      (v: string) => v.slice(0, -1),
      (v: string) => `${v}0`,
      (v: string) => v.replace(/[0-9A-Fa-f](?=[^0-9A-Fa-f]*$)/, (d) => (d === '1' ? '2' : '1')),
      (v: string) => v.replace('sha256=', 'sha1='),
      () => 'sha256=',
    ]) {
      const headers = each(change)
      const isSame = credential.every((name) => headers[name] === f.headers[name])
      if (!isSame) expect(verify(f, undefined, { headers })).toBeUndefined()
    }
  })

  test("another project's secret, no secret, an empty one: refused", () => {
    expect(verify(f, { current: OTHER })).toBeUndefined()
    expect(verify(f, {})).toBeUndefined()
    expect(verify(f, { current: '', previous: '', legacy: '' })).toBeUndefined()
    expect(verify(f, { current: 'whsec_' })).toBeUndefined()
  })

  test('one byte changed: refused, wherever the body is signed', () => {
    if (f.headers['x-gitlab-token'] !== undefined) return // the older token signs nothing
    const body = f.isForm ? f.body.replace('acme', 'acmf') : f.body.replace(/}$/, ' }')
    expect(body).not.toBe(f.body)
    expect(verify(f, undefined, { body })).toBeUndefined()
  })
})

test('SHA-1 alone is not read', () => {
  const f = fixture('github', 'push')
  const headers = { ...f.headers }
  delete headers['x-hub-signature-256']
  expect(headers['x-hub-signature']).toMatch(/^sha1=/)
  expect(verify({ ...f, headers })).toBeUndefined()
})

test('a signature of an empty secret never verifies an empty stored one', () => {
  const f = fixture('gitea', 'push')
  const signature = createHmac('sha256', '').update(f.body).digest('hex')
  expect(verify(f, { current: '' }, { headers: { 'x-gitea-signature': signature } })).toBe(
    undefined,
  )
})

test('Gitea and Forgejo are not taken for GitHub: their own header decides alone', () => {
  for (const provider of ['gitea', 'forgejo'] as const) {
    const f = fixture(provider, 'push')
    expect(f.headers['x-hub-signature-256']).toBeDefined()
    const wrong = { [`x-${provider}-signature`]: '0'.repeat(64) }
    expect(verify(f, undefined, { headers: wrong })).toBeUndefined()
  }
  const wrong = { 'x-forgejo-signature': '0'.repeat(64) }
  expect(verify(fixture('forgejo', 'push'), undefined, { headers: wrong })).toBeUndefined()
})

test('Gitea signs the JSON text of a form, GitHub the form itself', () => {
  const json = (f: Fixture) => JSON.stringify(f.payload)
  const hex = (text: string) => createHmac('sha256', FIXTURE_SECRET).update(text).digest('hex')
  const gitea = fixture('gitea', 'push_form')
  expect(gitea.headers['x-gitea-signature']).toBe(hex(json(gitea)))
  expect(verify(gitea, undefined, { headers: { 'x-gitea-signature': hex(gitea.body) } })).toBe(
    undefined,
  )
  const github = fixture('github', 'push_form')
  const overText = { 'x-hub-signature-256': `sha256=${hex(json(github))}` }
  expect(verify(github, undefined, { headers: overText })).toBeUndefined()
})

describe('GitLab', () => {
  const f = fixture('gitlab', 'push')

  test('a time five minutes off is accepted, six are not', () => {
    expect(verify(f, undefined, { now: FIXTURE_TIME + 5 * 60_000 })).toBe('current')
    expect(verify(f, undefined, { now: FIXTURE_TIME + 6 * 60_000 })).toBeUndefined()
    expect(verify(f, undefined, { now: FIXTURE_TIME - 6 * 60_000 })).toBeUndefined()
    for (const stamp of ['', 'soon', '-1', '1e12']) {
      expect(verify(f, undefined, { headers: { 'webhook-timestamp': stamp } })).toBeUndefined()
    }
  })

  test('id and time are signed', () => {
    expect(verify(f, undefined, { headers: { 'webhook-id': 'other' } })).toBeUndefined()
    const later = { 'webhook-timestamp': '1794733950' }
    expect(verify(f, undefined, { headers: later })).toBeUndefined()
  })

  test('a signature decides alone: the right token beside a wrong one does not help', () => {
    const headers = { 'webhook-signature': 'v1,AAAA', 'x-gitlab-token': FIXTURE_SECRET }
    expect(verify(f, undefined, { headers })).toBeUndefined()
  })

  test('an accepted secret that cannot sign is compared as the older token', () => {
    const headers = signAs('gitlab', f.headers, f.body, {
      secret: 'from-before',
      id: '1',
      now: FIXTURE_TIME,
      token: true,
    })
    const old = { ...f, headers }
    expect(verify(old, { legacy: 'from-before' })).toBe('legacy')
    expect(verify(old, { current: FIXTURE_SECRET, legacy: 'from-before' })).toBe('legacy')
    expect(verify(old, { legacy: 'From-before' })).toBeUndefined()
  })
})

test('what our own signing makes is what the hosts make', () => {
  for (const f of FIXTURES) {
    const token = f.headers['x-gitlab-token'] !== undefined
    const id = f.headers['webhook-id'] ?? 'any'
    const o = { secret: FIXTURE_SECRET, id, now: FIXTURE_TIME, isForm: f.isForm, token }
    const headers = signAs(f.provider, f.headers, f.body, o)
    expect(verify({ ...f, headers })).toBe('current')
  }
})
