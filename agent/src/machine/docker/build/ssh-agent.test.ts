// The SSH agent of a build, asked by OpenSSH's own programs, and what it refuses.
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createDeployKey } from '../../../../../control-plane/src/keys/deploy-key.ts'
import { openSshAgent, readSigningKey } from './ssh-agent.ts'

const run = promisify(execFile)
const made = createDeployKey('shop')
const key = readSigningKey(Buffer.from(made.privateKey))
let folder = ''
let server: Server
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'berth-ssh-agent-'))
  server = createServer((socket) => {
    const agent = openSshAgent(key)
    socket.on('error', () => {})
    socket.on('data', (chunk) => socket.write(agent(chunk)))
  })
  await new Promise<void>((resolve) => server.listen(join(folder, 'agent'), resolve))
})
afterEach(() => {
  server.close()
  rmSync(folder, { recursive: true })
})

test('lists the key and signs with it for OpenSSH; nothing can be added or removed', async () => {
  const env = { ...process.env, SSH_AUTH_SOCK: join(folder, 'agent') }
  const file = join(folder, 'key.pub')
  writeFileSync(file, `${made.publicLine}\n`)
  expect((await run('ssh-add', ['-L'], { env })).stdout.trim()).toBe(made.publicLine)
  await run('ssh-add', ['-T', file], { env }) // signs and verifies
  await expect(run('ssh-add', ['-D'], { env })).rejects.toThrow(/refused|Failed/i)
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'other')])
  await expect(run('ssh-add', [join(folder, 'other')], { env })).rejects.toThrow(/refused/i)
  await expect(run('ssh-add', ['-T', join(folder, 'other.pub')], { env })).rejects.toThrow()
})

test('refuses other keys, and bytes that are not the protocol', () => {
  execFileSync('ssh-keygen', ['-q', '-t', 'ecdsa', '-N', '', '-f', join(folder, 'ecdsa')])
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'secret', '-f', join(folder, 'locked')])
  const read = (name: string) => () => readSigningKey(execFileSync('cat', [join(folder, name)]))
  expect(read('ecdsa')).toThrow('it is not an Ed25519 key')
  expect(read('locked')).toThrow('it has a pass phrase')
  expect(() => readSigningKey(Buffer.from('-----BEGIN RSA PRIVATE KEY-----\nabc'))).toThrow(
    'it is not an OpenSSH private key',
  )
  const agent = openSshAgent(key)
  expect(agent(Buffer.from([0, 0, 0, 1, 17]))).toEqual(Buffer.from([0, 0, 0, 1, 5]))
  expect(() => agent(Buffer.alloc(4, 0xff))).toThrow('a bad length')
  expect(() => openSshAgent(key)(Buffer.from([0, 0, 0, 2, 13, 0]))).toThrow('it is cut short')
})
