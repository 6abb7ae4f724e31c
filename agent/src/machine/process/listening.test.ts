import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { explainListening, listListening, readListening } from './listening.ts'

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B00007F:A2C3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:0FA0 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1
   2: 0100007F:0FA0 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 78 1
`
const TABLE6 = `  sl  local_address remote_address st
   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 79 1
   1: 00000000000000000000000000000000:0BB9 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 80 1
   2: 0000000000000000FFFF00000100007F:0BBA 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 81 1
`

test('the kernel’s tables are read: addresses of both families, and only what listens', () => {
  expect(readListening(TABLE)).toEqual([
    { address: '127.0.0.11', port: 41667, inode: '1', uid: 0 },
    { address: '127.0.0.1', port: 4000, inode: '77', uid: 0 },
  ])
  expect(readListening(TABLE6).map(({ address, port }) => `${address} ${port}`)).toEqual([
    '::1 3000',
    ':: 3001',
    '127.0.0.1 3002',
  ])
})

test('another port or only loopback is explained; a reachable port and silence are not', () => {
  const from = (port: number, fromOutside = true) =>
    explainListening('web', [...readListening(TABLE), ...readListening(TABLE6)], {
      port,
      fromOutside,
    })
  const places = '127.0.0.1:4000, [::1]:3000, [::]:3001, 127.0.0.1:3002'
  expect(from(5000)).toBe(
    `web listens on ${places}, but its port is 5000: listen on 0.0.0.0:$PORT.`,
  )
  expect(from(4000)).toContain('its port is 4000: listen on 0.0.0.0:$PORT.')
  expect([from(4000, false), from(3001)]).toEqual([undefined, undefined])
  const dns = readListening(TABLE).slice(0, 1)
  expect(explainListening('web', dns, { port: 1, fromOutside: true })).toBeUndefined()
})

test('a real socket is found', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const found = listListening('self').filter((one) => one.port === port)
  expect(found.map(({ address }) => address)).toEqual(['127.0.0.1'])
  server.close()
})
