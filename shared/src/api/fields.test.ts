import { expect, test } from 'vitest'
import { z } from 'zod'
import { ProjectCreate, ServerPatch, SshCertificateRequest } from './index.ts'

const messages = (schema: z.ZodType, value: unknown) =>
  (schema.safeParse(value).error?.issues ?? []).map(
    ({ path, message }) => `${path.join('.')} ${message}`,
  )

test('the words of every schema name what is allowed', () => {
  expect(
    messages(SshCertificateRequest, { public_key: '', purpose: 'tunnel', ttl_seconds: 5 }),
  ).toEqual([
    'public_key must not be empty',
    'purpose must be one of logs, artifact, shell, forward, copy',
    'ttl_seconds must be at least 60',
  ])
  expect(messages(SshCertificateRequest, { ttl_seconds: 1.5 })).toEqual([
    'public_key is missing',
    'ttl_seconds must be a whole number',
  ])
  expect(messages(ServerPatch, { paused: 'yes', ssh_port: 70_000 })).toEqual([
    'ssh_port must be at most 65535',
    'paused must be true or false',
  ])
  expect(messages(z.array(z.string().max(3)), ['four'])).toEqual([
    '0 must have at most 3 characters',
  ])
  expect(messages(z.array(z.string()).max(1), ['a', 'b'])).toEqual([' must have at most 1 entry'])
  expect(messages(z.iso.datetime({ offset: true }), 'yesterday')).toEqual([
    ' must be a time such as 2026-11-14T07:31:00Z',
  ])
  expect(messages(ProjectCreate, {}).length).toBeGreaterThan(0)
})

test('a schema’s own words win', () => {
  expect(messages(z.string().regex(/^a$/, 'must be a'), 'b')).toEqual([' must be a'])
})
