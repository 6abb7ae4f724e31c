// A private Docker engine for one run (setup.ts): own data, socket, bridge and address range; the host's iptables and
// any other engine stay untouched. Containers have no way out; the host reaches their addresses directly.
import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { listProcesses } from '../agent/src/exec/processes.ts'

const READY_MS = 20_000
const STOP_MS = 20_000
const CALL_MS = 60_000

export interface DockerEngine {
  folder: string
  socket: string
  /** Where networks of environments are taken from: a range that no other run on this machine uses. */
  pool: string
  /** The machine's own address on the bridge that builds use. */
  gateway: string
  pid: number
  /** Ends the process as it is asked to and starts it again on the same data. */
  restart(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>
  stop(): Promise<void>
}

/** One call of the engine's API; the body of the answer as text. */
export function callEngine(
  socketPath: string,
  method: string,
  path: string,
  body?: Readable | string,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const type = typeof body === 'string' ? 'application/json' : 'application/x-tar'
    const call = request(
      { socketPath, method, path, headers: body ? { 'content-type': type } : {}, timeout: CALL_MS },
      (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
        answer.on('error', reject)
      },
    )
    call.on('timeout', () => call.destroy(new Error(`no answer from the engine: ${path}`)))
    call.on('error', reject)
    if (typeof body === 'string' || body === undefined) call.end(body)
    else body.pipe(call)
  })
}

const ip = (...args: string[]): string => execFileSync('ip', args, { encoding: 'utf8' })

/** A second octet of 10.0.0.0/8 that nothing on this machine uses. */
function freeOctet(): number {
  const used = `${ip('-4', 'addr')}${ip('-4', 'route')}`
  const first = randomBytes(1)[0] ?? 0
  for (let n = 0; n < 120; n += 1) {
    const octet = 100 + ((first + n) % 120)
    if (!used.includes(` 10.${octet}.`) && !used.includes(`\n10.${octet}.`)) return octet
  }
  throw new Error('no free address range in 10.0.0.0/8')
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

async function within(ms: number, what: string, look: () => boolean | Promise<boolean>) {
  for (const end = performance.now() + ms; !(await look()); await delay(20)) {
    if (performance.now() > end) throw new Error(`gave up waiting for ${what}`)
  }
}

export interface EngineOptions {
  /** Where its data lie; a file system of limited size, say. */
  dataRoot?: string
  /** Containers go on while the engine itself is away. */
  liveRestore?: boolean
  /** How much build cache the engine keeps by itself: `512MB`. */
  buildCache?: string
}

export async function startDockerEngine(
  dockerd: string,
  options: EngineOptions = {},
): Promise<DockerEngine> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-docker-'))
  const bridge = `bt${randomBytes(4).toString('hex')}`
  const octet = freeOctet()
  ip('link', 'add', bridge, 'type', 'bridge')
  ip('addr', 'add', `10.${octet}.255.1/24`, 'dev', bridge)
  ip('link', 'set', bridge, 'up')
  const socket = join(folder, 'docker.sock')
  const dataRoot = options.dataRoot ?? join(folder, 'data')
  for (const name of ['exec', 'tmp']) mkdirSync(join(folder, name))
  const pool = `10.${octet}.0.0/17`
  const config = {
    'data-root': dataRoot,
    'exec-root': join(folder, 'exec'),
    pidfile: join(folder, 'pid'),
    hosts: [`unix://${socket}`],
    bridge,
    iptables: false,
    ip6tables: false,
    'ip-masq': false,
    'userland-proxy': false,
    'live-restore': options.liveRestore === true,
    'shutdown-timeout': 5,
    ...(options.buildCache && {
      builder: { gc: { enabled: true, defaultKeepStorage: options.buildCache } },
    }),
    'default-address-pools': [{ base: pool, size: 26 }],
    'log-driver': 'local',
    'log-opts': { 'max-size': '20m', 'max-file': '5' },
  }
  writeFileSync(join(folder, 'daemon.json'), JSON.stringify(config))

  const start = async (): Promise<number> => {
    const log = openSync(join(folder, 'log'), 'a')
    // a run that is killed takes its engine along
    const argv = ['--pdeathsig', 'TERM', dockerd, '--config-file', join(folder, 'daemon.json')]
    const child = spawn('setpriv', argv, {
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...process.env, DOCKER_TMPDIR: join(folder, 'tmp') },
    })
    child.unref()
    const { pid } = child
    if (pid === undefined) throw new Error('dockerd did not start')
    const ping = () =>
      callEngine(socket, 'GET', '/_ping').then(
        ({ status }) => status === 200,
        () => {
          if (!isAlive(pid)) throw new Error(`dockerd ended: ${lastWords(folder)}`)
          return false
        },
      )
    await within(READY_MS, 'dockerd', ping)
    return pid
  }
  const end = async (pid: number, signal: NodeJS.Signals): Promise<void> => {
    if (isAlive(pid)) process.kill(pid, signal)
    await within(STOP_MS, 'the end of dockerd', () => !isAlive(pid))
    // its containerd follows a moment later; an engine that starts meanwhile takes the dying one for its own
    const helper = join(folder, 'exec/containerd/containerd.pid')
    const helperPid = existsSync(helper) ? Number(readFileSync(helper, 'utf8')) : 0
    if (helperPid > 1) await within(STOP_MS, 'the end of containerd', () => !isAlive(helperPid))
    rmSync(helper, { force: true })
  }
  const clear = (): void => {
    endLeftovers(folder)
    for (const line of readFileSync('/proc/mounts', 'utf8').split('\n').reverse()) {
      const at = line.split(' ')[1] ?? ''
      if (at.startsWith(`${folder}/`) || at.startsWith(`${dataRoot}/`)) {
        execFileSync('umount', ['-l', at], { stdio: 'ignore' })
      }
    }
    execFileSync('ip', ['link', 'del', bridge], { stdio: 'ignore' })
    rmSync(folder, { recursive: true, force: true })
  }

  let pid: number
  try {
    pid = await start()
  } catch (error) {
    clear()
    throw error
  }
  return {
    folder,
    socket,
    pool,
    gateway: `10.${octet}.255.1`,
    get pid() {
      return pid
    },
    async restart(signal = 'SIGTERM') {
      await end(pid, signal)
      rmSync(join(folder, 'pid'), { force: true }) // one that was killed leaves it
      pid = await start()
    },
    async stop() {
      const bridges = await listBridges(socket).catch(() => [])
      if (options.liveRestore) await removeContainers(socket).catch(() => undefined)
      await end(pid, 'SIGTERM').catch(() => end(pid, 'SIGKILL'))
      for (const name of bridges) {
        try {
          execFileSync('ip', ['link', 'del', name], { stdio: 'ignore' })
        } catch {
          // gone with its network
        }
      }
      clear()
    },
  }
}

/** The engine leaves the bridges of its networks behind when it ends. */
async function listBridges(socket: string): Promise<string[]> {
  const { text } = await callEngine(socket, 'GET', '/networks')
  const networks = JSON.parse(text) as { Id: string; Name: string; Driver: string }[]
  return networks
    .filter(({ Driver, Name }) => Driver === 'bridge' && Name !== 'bridge')
    .map(({ Id }) => `br-${Id.slice(0, 12)}`)
}

async function removeContainers(socket: string): Promise<void> {
  const { text } = await callEngine(socket, 'GET', '/containers/json?all=1')
  for (const { Id } of JSON.parse(text) as { Id: string }[]) {
    await callEngine(socket, 'DELETE', `/containers/${Id}?force=1`)
  }
}

/** Containers of an engine that was killed: each hangs below a shim whose arguments name the engine's folder. */
function endLeftovers(folder: string): void {
  const all = listProcesses()
  const ours = new Set(
    all.filter(({ pid }) => commandLine(pid).includes(`${folder}/`)).map((p) => p.pid),
  )
  for (let grew = true; grew; ) {
    const children = all.filter(({ pid, parent }) => ours.has(parent) && !ours.has(pid))
    for (const { pid } of children) ours.add(pid)
    grew = children.length > 0
  }
  ours.delete(process.pid)
  for (const pid of ours) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
}

const commandLine = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

const lastWords = (folder: string): string =>
  readFileSync(join(folder, 'log'), 'utf8').slice(-1_000)
