// Shares the ceiling of an environment among the services of a deployment. PURE. What the file asks for is granted or
// refused; services that ask for nothing share the rest, each up to the default. Sums hold by construction, because the
// engine and the kernel only limit each service alone.
import { CEILINGS } from '@berth/shared'

export interface Limits {
  memoryBytes: number
  cpus: number
  pids: number
}

/** What an environment may use. */
export interface Ceiling extends Limits {
  diskBytes: number
  /** False: as many as the server has; the kernel shares them among the services. */
  isCpuBound: boolean
}

export interface Ask {
  name: string
  memoryBytes: number | null
  cpus: number | null
  /** Containers that each ask for this; absent: 1. */
  count?: number
}

type Shares = { ok: true; limits: Map<string, Limits> } | { ok: false; message: string }

export function describeSize(bytes: number): string {
  const gibibytes = bytes / 1_024 ** 3
  if (gibibytes >= 1) return `${Number(gibibytes.toFixed(1))} GiB`
  return `${Math.floor(bytes / 1_024 ** 2)} MiB`
}

const cores = (count: number): string =>
  `${Number(count.toFixed(2))} ${count === 1 ? 'processor' : 'processors'}`

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const countOf = ({ count = 1 }: Ask): number => count
const countAll = (services: readonly Ask[]): number => sum(services.map(countOf))
const sumOf = (services: readonly Ask[], read: (service: Ask) => number): number =>
  sum(services.map((service) => read(service) * countOf(service)))

const nameAsk = ({ name, count = 1 }: Ask): string =>
  count > 1 ? `${name} (${count} replicas)` : name

function listNames(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${last}` : last
}

const asks = (names: readonly string[]): string =>
  names.length > 1 ? `${listNames(names)} together ask for` : `${names[0]} asks for`

const ADVICE = 'Ask for less in .service.yml, or let an administrator raise the limit.'

/** `server`: its name, for the message. */
export function shareOut(
  services: readonly Ask[],
  most: Ceiling,
  usual: Limits,
  server: string,
): Shares {
  const may = (what: string): string =>
    `an environment of this project may use ${what} on ${server}`
  const no = (asked: string, limit: string): Shares => {
    return { ok: false, message: `${asked}; ${may(limit)}. ${ADVICE}` }
  }
  const memory = services.filter(({ memoryBytes }) => memoryBytes !== null)
  const asked = sumOf(memory, ({ memoryBytes }) => memoryBytes ?? 0)
  const names = memory.map(nameAsk)
  const limit = describeSize(most.memoryBytes)
  if (asked > most.memoryBytes) {
    return no(`${asks(names)} ${describeSize(asked)} of memory`, limit)
  }
  const silent = countAll(services) - countAll(memory)
  const left = Math.floor((most.memoryBytes - asked) / Math.max(1, silent))
  if (silent > 0 && left < CEILINGS.serviceMemoryBytes) {
    const others = services.filter(({ memoryBytes }) => memoryBytes === null)
    const rest = `${describeSize(left)} of memory for ${silent > 1 ? 'each of ' : ''}${listNames(others.map(nameAsk))}`
    const why =
      names.length > 0 ? `${asks(names)} ${describeSize(asked)}, which leaves` : 'There is'
    return no(`${why} ${rest}`, limit)
  }
  const cpus = shareCpus(services, most, usual)
  if (typeof cpus === 'string') return no(cpus, cores(most.cpus))
  const pids = Math.max(
    1,
    Math.min(usual.pids, Math.floor(most.pids / Math.max(1, countAll(services)))),
  )
  const limits = services.map(({ name, memoryBytes, cpus: own }): [string, Limits] => [
    name,
    { memoryBytes: memoryBytes ?? Math.min(usual.memoryBytes, left), cpus: own ?? cpus, pids },
  ])
  return { ok: true, limits: new Map(limits) }
}

/** What a service that asks for none gets, or the reason for a refusal as text. */
function shareCpus(services: readonly Ask[], most: Ceiling, usual: Limits): number | string {
  const asking = services.filter(({ cpus }) => cpus !== null)
  const greedy = asking.filter(({ cpus }) => (cpus ?? 0) > most.cpus)
  const asked = sumOf(asking, ({ cpus }) => cpus ?? 0)
  if (greedy[0]) return `${greedy[0].name} asks for ${cores(greedy[0].cpus ?? 0)}`
  if (!most.isCpuBound) return Math.min(usual.cpus, most.cpus)
  const names = asking.map(nameAsk)
  if (asked > most.cpus) return `${asks(names)} ${cores(asked)}`
  const silent = countAll(services) - countAll(asking)
  const left = (most.cpus - asked) / Math.max(1, silent)
  if (silent > 0 && left < CEILINGS.serviceCpus) {
    return `${asks(names)} ${cores(asked)}, which leaves none for the other services`
  }
  return Math.min(usual.cpus, left)
}

/** For a process that the kernel ended; names the limit and the key that raises it. */
export function neededMemory(service: string, memoryBytes?: number): string {
  const limit =
    memoryBytes === undefined
      ? 'its memory limit'
      : `its ${Math.round(memoryBytes / 1_024 ** 2)} MiB`
  return `it needed more than ${limit}. Raise 'memory' of ${service} in .service.yml.`
}
