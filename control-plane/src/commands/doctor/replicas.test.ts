// What the doctor says about several control planes on one database.
import { createServer, type Server } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Config, readConfig } from '../../config.ts'
import type { Inspection } from '../../store/installation/inspection.ts'
import type { LiveReplica } from '../../store/installation/live-replicas.ts'
import { checkReplicas } from './replicas.ts'

const config = (env: Record<string, string> = {}): Config =>
  readConfig({ BERTH_CONFIG_FILE: '', DATABASE_URL: 'postgres://db/berth', ...env })
const replica = (host: string, more: Partial<LiveReplica> = {}): LiveReplica => ({
  id: host,
  host,
  pid: 7,
  version: '1.16.0',
  peer_address: null,
  ...more,
})
const ask = (replicas: LiveReplica[], env?: Record<string, string>) =>
  checkReplicas(config(env), { replicas } as Inspection)

let peer: Server
let address: string
beforeEach(async () => {
  peer = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve))
  const at = peer.address()
  address = `127.0.0.1:${typeof at === 'object' ? at?.port : 0}`
})
afterEach(() => peer.close())

test('one control plane needs no words', async () => {
  expect(await ask([])).toEqual([])
  expect(await ask([replica('a', { peer_address: '127.0.0.1:1' })])).toEqual([])
})

test('several that reach each other are well', async () => {
  const found = await ask([replica('a', { peer_address: address }), replica('b')])
  expect(found).toEqual([
    expect.objectContaining({
      status: 'ok',
      message:
        '2 use the database: process 7 on a (version 1.16.0), process 7 on b (version 1.16.0)',
    }),
    expect.objectContaining({ status: 'ok', subject: `peer ${address}` }),
  ])
})

test('different versions and a peer that cannot be reached', async () => {
  await new Promise((resolve) => peer.close(resolve))
  const found = await ask([
    replica('a', { peer_address: address }),
    replica('b', { version: '1.17.0' }),
  ])
  expect(found.map(({ status, subject }) => [status, subject])).toEqual([
    ['warning', 'control planes'],
    ['problem', `peer ${address}`],
  ])
  expect(found[1]).toMatchObject({
    message: expect.stringContaining('process 7 on a does not answer from here (ECONNREFUSED)'),
    fix: expect.stringContaining('BERTH_PEER_ADDRESS'),
  })
})

test.each([
  [{ BERTH_BACKUP_TO: '/backup', BERTH_BACKUP_SCHEDULE: '0 3 * * *' }, 'backups'],
  [{ BERTH_DOMAIN: 'deploy.example.com' }, 'HTTPS certificate of deploy.example.com'],
])('a setting that fits one control plane only: %o', async (env, subject) => {
  const two = [replica('a'), replica('b')]
  const found = await ask(two, env)
  expect(found.filter(({ status }) => status === 'warning')).toMatchObject([{ subject }])
  expect((await ask(two)).filter(({ status }) => status === 'warning')).toEqual([])
})
