import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fingerprint } from '../spec-key.ts'
import { countConnections, countPeers, encodePeer } from './connections.ts'
import { tryHandshake } from './handshake.ts'

test('a peer is found in the table of the kernel as it is written there', () => {
  expect(encodePeer('10.214.0.5', 8_080)).toBe('0500D60A:1F90')
  const line = (remote: string, state: string): string =>
    `   0: 0100007F:A1B2 ${remote} ${state} 00000000:00000000 00:00000000 00000000 0 0 1`
  const table = [
    '  sl  local_address rem_address   st',
    line('0500D60A:1F90', '01'),
    line('0000000000000000FFFF00000500D60A:1F90', '06'),
    line('0000000000000000FFFF00000600D60A:1F90', '01'),
  ].join('\n')
  expect(countPeers(table, '10.214.0.5', 8_080)).toBe(1)
})

test('connections of this machine are counted while they are open', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  expect(countConnections('127.0.0.1', port)).toBe(0)
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  expect(countConnections('127.0.0.1', port)).toBe(1)
  socket.destroy()
  server.close()
})

test('a handshake that cannot be is an answer, not an error', async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  expect(await tryHandshake({ address: '127.0.0.1', port }, 'a.example', 5_000)).toBe('ECONNRESET')
  server.close()
})

test('a fingerprint is the same on one server and another on every other', () => {
  const folders = ['a', 'b'].map((name) => mkdtempSync(join(tmpdir(), `berth-key-${name}-`)))
  const [first = '', second = ''] = folders.map((stateDir) => fingerprint({ stateDir }, 'text'))
  expect(fingerprint({ stateDir: folders[0] ?? '' }, 'text')).toBe(first)
  expect(fingerprint({ stateDir: folders[0] ?? '' }, 'texts')).not.toBe(first)
  expect(second).not.toBe(first)
  expect(statSync(join(folders[0] ?? '', 'spec-key')).mode & 0o777).toBe(0o600)
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
