// The private Docker engine of `npm start -- --docker`: its data is below .data, its sockets below /run, and the
// machine's own engine and iptables stay untouched, except for one rule that lets containers reach the outside.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freeOctet, type KeptEngine, startDockerEngine } from '../docker-engine.ts'

const FORWARD = '/proc/sys/net/ipv4/ip_forward'

interface PrivateEngine {
  socket: string
  pool: string
  stop(): Promise<void>
}

const describeFile = (data: string): string => join(data, 'docker', 'engine.json')

function readKept(data: string, digest: string): KeptEngine {
  const file = describeFile(data)
  const octet = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).octet : freeOctet()
  mkdirSync(join(data, 'docker'), { recursive: true })
  writeFileSync(file, JSON.stringify({ octet }))
  return {
    folder: join(data, 'docker'),
    runFolder: `/run/berth-dev-${digest}`,
    bridge: `berth${digest.slice(0, 8)}`,
    octet,
  }
}

const rule = (octet: number, bridge: string): string[] => {
  const range = `10.${octet}.0.0/16`
  return ['POSTROUTING', '-s', range, '!', '-d', range, '-m', 'comment', '--comment', bridge]
}

const iptables = (verb: string, words: string[]): boolean => {
  try {
    execFileSync('iptables', ['-w', '-t', 'nat', verb, ...words, '-j', 'MASQUERADE'], {
      stdio: 'ignore',
    })
    return true
  } catch {
    return false
  }
}

/** Throws with what is missing. */
export async function startPrivateEngine(data: string, digest: string): Promise<PrivateEngine> {
  if (process.getuid?.() !== 0) throw new Error('--docker needs root: a Docker engine runs as root')
  const dockerd = ['/usr/sbin/dockerd', '/usr/bin/dockerd'].find((file) => existsSync(file))
  if (!dockerd) throw new Error('--docker needs dockerd (apt-get install docker.io)')
  const keep = readKept(data, digest)
  const engine = await startDockerEngine(dockerd, { keep })
  const words = rule(keep.octet, keep.bridge)
  if (!iptables('-C', words)) iptables('-A', words)
  const forwarded = readFileSync(FORWARD, 'utf8')
  writeFileSync(FORWARD, '1')
  return {
    socket: engine.socket,
    pool: engine.pool,
    async stop() {
      iptables('-D', words)
      writeFileSync(FORWARD, forwarded)
      await engine.stop()
    },
  }
}

/** Removes what a killed engine left, and its data. */
export function removePrivateEngine(data: string, digest: string): void {
  if (!existsSync(describeFile(data))) return
  const { octet, bridge, runFolder } = readKept(data, digest)
  while (iptables('-D', rule(octet, bridge)));
  rmSync(runFolder, { recursive: true, force: true })
  rmSync(join(data, 'docker'), { recursive: true, force: true })
}
