// Facts about this server and its load, for Hello, Observed and heartbeats. Parts are probed in the background and
// cached, so that no message waits for a slow program or a hung engine.
import { existsSync, readdirSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { arch, availableParallelism, hostname, totalmem } from 'node:os'
import { join } from 'node:path'
import { DAEMON } from '@berth/shared'
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import { describeError, type Log } from '../log.ts'
import { type HostPart, isDockerUp, lookAtParts } from '../machine/host-parts.ts'
import { readBootId } from '../machine/process/processes.ts'
import { readServerSettings } from '../machine/server-settings.ts'
import { openEdge } from '../proxy/client.ts'
import { RequestMeter } from '../proxy/requests/request-meter.ts'
import type { AgentSettings } from '../settings.ts'
import { UsageMeter } from './usage-meter.ts'

/** State of SSH access. */
interface SshState {
  mode: string
  reason: string
  port: number
  accounts: string[]
}

export class Host {
  readonly #settings: AgentSettings
  readonly #log: Log
  readonly #os = readOsName()
  readonly #bootId = readBootId()
  #parts: HostPart[] = []
  #dockerOk = false
  #changed = false
  #timer: NodeJS.Timeout | undefined
  #proxyOk = false
  #updates = false
  #ssh: SshState | undefined
  /** Measures the usage of this server and its environments. */
  readonly usage: UsageMeter
  /** Counts what the proxy answered. */
  readonly requests: RequestMeter
  /** Undefined: not known yet. */
  #isExclusive: boolean | undefined

  constructor(settings: AgentSettings, log: Log) {
    this.#settings = settings
    this.#log = log
    this.usage = new UsageMeter(settings.stateDir, () => readDiskUse(settings))
    this.requests = new RequestMeter(settings, log)
  }

  /** The first probe; later ones run on a timer. */
  async open(): Promise<void> {
    await this.look()
    this.#changed = false
    this.#timer = setInterval(() => void this.look(), DAEMON.factsMs)
    this.#timer.unref()
    this.requests.open()
  }

  close(): void {
    clearInterval(this.#timer)
    this.requests.close()
  }

  info() {
    const disk = readDisk(this.#settings.stateDir)
    return {
      hostname: hostname(),
      os: this.#os,
      arch: arch(),
      bootId: this.#bootId,
      dockerVersion: this.#version('docker'),
      maxParallel: readServerSettings(this.#settings).taskSlots,
      diskFreeBytes: BigInt(disk.free),
      diskBytes: BigInt(disk.size),
      memoryBytes: BigInt(totalmem()),
      cpus: availableParallelism(),
      parts: this.#parts.map((part) => this.#complete(part)),
    }
  }

  /** Optional features; an absent one is not offered. */
  capabilities(): string[] {
    const has = (name: string): boolean => this.#version(name) !== ''
    const manual = has('git') && (has('users') || this.#settings.development)
    return [
      ...(has('docker') ? ['docker'] : []),
      ...(manual ? ['manual'] : []),
      ...(has('pty') ? ['pty'] : []),
      ...(has('cgroup') ? ['cgroup'] : []),
      'retell',
      'waits',
      ...(this.#updates ? ['update'] : []),
    ]
  }

  /** This agent can update itself. */
  noteUpdates(): void {
    this.#updates = true
  }

  /** For heartbeats: cheap; slow facts come from the last probe. */
  pulse() {
    return {
      spoolBytes: BigInt(measureSpools(join(this.#settings.stateDir, 'attempts'))),
      diskFreeBytes: BigInt(readDisk(this.#settings.stateDir).free),
      dockerOk: this.#dockerOk,
      proxyOk: this.#proxyOk,
    }
  }

  /** For an occasional heartbeat; undefined: not due. */
  takeUsage() {
    const use = this.usage.take()
    if (!use) return undefined
    return {
      at: timestampFromDate(use.at),
      cpuPermille: use.cpuPermille,
      memoryUsedBytes: BigInt(use.memoryUsedBytes),
      memoryBytes: BigInt(use.memoryBytes),
      diskUsedBytes: BigInt(use.diskUsedBytes),
      diskBytes: BigInt(use.diskBytes),
      loadHundredths: Math.round(use.load * 100),
      environments: use.environments.map((of) => ({
        environmentId: of.environmentId,
        diskBytes: BigInt(of.diskBytes),
        memoryBytes: BigInt(of.memoryBytes),
        cpuPermille: of.cpuPermille,
        services: of.services.map(({ name, memoryBytes, cpuPermille }) => ({
          name,
          memoryBytes: BigInt(memoryBytes),
          cpuPermille,
        })),
      })),
      ...this.#countRequests(),
    }
  }

  #countRequests() {
    const whole = this.requests.whole()
    if (!whole) return {}
    return {
      requestsUntil: timestampFromMs(whole.until),
      requestMinutes: whole.minutes.map(({ minute, counts }) => ({
        minute: timestampFromMs(minute),
        environments: Object.entries(counts).map(([environmentId, of]) => ({
          environmentId: Number(environmentId),
          requests: of.requests,
          status2xx: of.statuses[0],
          status3xx: of.statuses[1],
          status4xx: of.statuses[2],
          status5xx: of.statuses[3],
          latencies: of.latencies,
        })),
      })),
    }
  }

  /** Whether a part appeared or disappeared since the last call. */
  takeChanged(): boolean {
    const changed = this.#changed
    this.#changed = false
    return changed
  }

  /** What maintenance found out about the engine; shown beside it. */
  noteEngine({ isExclusive }: { isExclusive: boolean }): void {
    if (this.#isExclusive !== isExclusive) this.#changed = true
    this.#isExclusive = isExclusive
  }

  /** How users connect, or why they cannot; shown beside sshd. */
  noteSsh(state: SshState): void {
    if (JSON.stringify(this.#ssh) !== JSON.stringify(state)) this.#changed = true
    this.#ssh = state
  }

  #completeSshd(part: HostPart): HostPart {
    if (!this.#ssh) return part
    const { mode, reason, port, accounts } = this.#ssh
    const details = {
      mode,
      ...(mode !== 'off' && port > 0 ? { port: String(port) } : {}),
      accounts: accounts.join(' '),
    }
    return { ...part, reason: part.reason || reason, details }
  }

  #complete(part: HostPart): HostPart {
    if (part.name === 'sshd') return this.#completeSshd(part)
    if (part.name !== 'docker' || part.version === '' || this.#isExclusive === undefined)
      return part
    return { ...part, details: { ...part.details, exclusive: String(this.#isExclusive) } }
  }

  #version(name: string): string {
    return this.#parts.find((p) => p.name === name)?.version ?? ''
  }

  /** Runs on a timer, and when a caller knows that something changed. */
  async look(): Promise<void> {
    try {
      const [parts, dockerOk, proxyOk] = await Promise.all([
        lookAtParts(this.#settings),
        isDockerUp(this.#settings),
        isProxyUp(this.#settings),
      ])
      if (dockerOk !== this.#dockerOk || proxyOk !== this.#proxyOk) this.usage.hasten()
      this.#dockerOk = dockerOk
      this.#proxyOk = proxyOk
      if (JSON.stringify(parts) !== JSON.stringify(this.#parts)) this.#changed = true
      this.#parts = parts
    } catch (error) {
      this.#log.warn(describeError(error), 'the host could not be looked at')
    }
  }
}

/** Whether public requests reach services now. */
async function isProxyUp(settings: AgentSettings): Promise<boolean> {
  try {
    const { mode, caddy } = await openEdge(settings).describe()
    return mode === 'ports' || caddy.up
  } catch {
    return false
  }
}

/** As of the last hourly measurement. */
function readDiskUse(settings: AgentSettings): Map<number, number> {
  if (!existsSync(ledgerFile(settings))) return new Map()
  const ledger = new Ledger(settings)
  try {
    return new Map(ledger.usage.list().map(({ environmentId, bytes }) => [environmentId, bytes]))
  } finally {
    ledger.close()
  }
}

function readDisk(folder: string): { free: number; size: number } {
  const { bavail, blocks, bsize } = statfsSync(folder)
  return { free: bavail * bsize, size: blocks * bsize }
}

function readOsName(): string {
  try {
    const text = readFileSync('/etc/os-release', 'utf8')
    return /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(text)?.[1]?.slice(0, 100) ?? 'Linux'
  } catch {
    return 'Linux'
  }
}

/** Bytes of log on this disk; the control plane forgets attempts, which bounds their number. */
function measureSpools(attempts: string): number {
  let bytes = 0
  try {
    for (const id of readdirSync(attempts)) {
      const folder = join(attempts, id, 'log')
      const files = readdirOrNone(folder)
      for (const file of files) {
        bytes += statSync(join(folder, file), { throwIfNoEntry: false })?.size ?? 0
      }
    }
  } catch {
    // the folder vanished meanwhile; the next heartbeat counts again
  }
  return bytes
}

function readdirOrNone(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
