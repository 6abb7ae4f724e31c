// The program as users and the service manager see it: commands, messages, exit codes, signals.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VERSION } from '@berth/shared'
import { GoodbyeReason } from '@berth/shared/wire'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createAuthority } from './link/identity/authority.testing.ts'
import { createKeyRequest } from './link/identity/certificate.ts'
import { writeIdentity } from './link/identity/identity.ts'
import { Peer, type PeerOptions } from './link/peer.testing.ts'
import { readSettings } from './settings.ts'

const MAIN = join(import.meta.dirname, 'main.ts')
let dir: string
let peer: Peer | undefined
const children: ChildProcess[] = []
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-main-'))
})
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  peer?.stop()
  rmSync(dir, { recursive: true, force: true })
})

function start(...args: string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: {
      PATH: process.env.PATH,
      BERTH_STATE_DIR: dir,
      BERTH_LOG_LEVEL: 'info',
      BERTH_PROXY: 'off',
      BERTH_FIREWALL: 'off',
      BERTH_SSH: 'off', // its sshd would be the machine's
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  child.stdout.on('data', (piece) => {
    out += piece
  })
  child.stderr.on('data', (piece) => {
    err += piece
  })
  const ended = new Promise<{ code: number | null; out: string; err: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, out, err }))
  })
  children.push(child)
  return { child, ended }
}
const run = (...args: string[]) => start(...args).ended

async function joinPeer(options: PeerOptions = {}): Promise<Peer> {
  const authority = await createAuthority()
  peer = new Peer(authority, options)
  await peer.listen()
  const { key, csrPem } = await createKeyRequest()
  writeIdentity(readSettings({ BERTH_STATE_DIR: dir }), {
    agentId: 'agent-1',
    serverId: 7,
    baseUrl: 'http://127.0.0.1:1/',
    endpoints: [`127.0.0.1:${peer.port}`],
    generation: 1,
    renewAt: '',
    sshUserCaKeys: [],
    key,
    certificate: await authority.issueAgent(csrPem),
    ca: [authority.pem],
  })
  return peer
}
async function until(what: string, holds: () => unknown): Promise<void> {
  const deadline = Date.now() + 30_000
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

test('version, help and wrong usage', async () => {
  expect(await run('--version')).toMatchObject({ code: 0, out: `${VERSION}\n` })
  expect(await run('--help')).toMatchObject({ code: 0, out: expect.stringContaining('join') })
  for (const args of [[], ['sing'], ['join'], ['join', 'a'], ['run', 'x'], ['runner', 'a', 'b']]) {
    expect(await run(...args)).toMatchObject({ code: 2, err: expect.stringContaining('join') })
  }
})

test('a server that never joined: the sentence says what to do', async () => {
  expect(await run('status')).toMatchObject({ code: 1, out: 'Not joined.\n' })
  const { code, err } = await run('run')
  expect(code).toBe(1)
  expect(err).toMatch(
    /^berth-agent: This server has not joined .*berth-agent join <url> <token>\n$/,
  )
})

test('join with a bad token: one sentence, no stack, exit 1', async () => {
  const { code, err } = await run('join', 'https://berth.example.com', 'berth_join_x')
  expect(code).toBe(1)
  expect(err).toMatch(/^berth-agent: This is not a join token\..*\n$/)
})

test('run, status, a second daemon, SIGTERM', async () => {
  const control = await joinPeer()
  const daemon = start('run')
  await until('a session', () => control.heard.some((m) => m.msg.case === 'observed'))
  const { code, out } = await run('status')
  expect([code, out]).toEqual([0, expect.stringMatching(/connected to 127\.0\.0\.1:\d+ since/)])
  const second = await run('run')
  expect(second).toMatchObject({ code: 1, err: expect.stringMatching(/Another berth-agent holds/) })
  daemon.child.kill('SIGTERM')
  const { code: end } = await daemon.ended
  expect(end).toBe(0)
  const last = control.heard.at(-1)?.msg
  expect(last?.case === 'goodbye' && last.value.reason).toBe(GoodbyeReason.AGENT_SHUTDOWN)
  expect(await run('status')).toMatchObject({ code: 1, out: 'Joined, not running.\n' })
})

test('revoked: exit 78, and the sentence for the person', async () => {
  const value = { reason: GoodbyeReason.REVOKED, message: 'This server was removed.' }
  await joinPeer({ firstAnswer: { case: 'goodbye', value } })
  const { code, err } = await run('run')
  expect(code).toBe(78)
  expect(err).toContain('revoked): This server was removed.')
})
