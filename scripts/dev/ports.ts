// The ports of `npm start`: chosen once per checkout, and kept.
import { createSocket } from 'node:dgram'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'

const probeTcp = (port: number) =>
  new Promise<number>((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      const { port: got } = server.address() as { port: number }
      server.close(() => resolve(got))
    })
  })

const probeUdp = (port: number) =>
  new Promise<number>((resolve, reject) => {
    const socket = createSocket('udp4')
    socket.once('error', reject)
    socket.bind(port, '127.0.0.1', () => {
      const { port: got } = socket.address()
      socket.close(() => resolve(got))
    })
  })

const freePort = (wanted: number, probe = probeTcp): Promise<number> =>
  probe(wanted).catch(() => probe(0))

export type Ports = Record<'http' | 'agent' | 'git' | 'proxy' | 'names' | 'ssh', number>

export const portsFile = (data: string): string => join(data, 'ports.json')

/** Chosen once and kept, so that addresses stay the same across restarts. */
export async function choosePorts(data: string): Promise<Ports> {
  const file = portsFile(data)
  const kept = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
  const ports: Ports = {
    http: kept.http ?? (await freePort(7_080)),
    agent: kept.agent ?? (await freePort(7_443)),
    git: kept.git ?? (await freePort(0)),
    proxy: kept.proxy ?? (await freePort(8_080)),
    names: kept.names ?? (await freePort(15_353, probeUdp)),
    ssh: kept.ssh ?? (await freePort(0)), // 2222 is the port of agents on servers
  }
  writeFileSync(file, JSON.stringify(ports))
  return ports
}

/** The first port that is in use; undefined if all are free. */
export async function findTaken(
  ports: Ports,
  names: (keyof Ports)[],
): Promise<keyof Ports | undefined> {
  for (const name of names) {
    const probe = name === 'names' ? probeUdp : probeTcp
    if ((await freePort(ports[name], probe)) !== ports[name]) return name
  }
  return undefined
}
