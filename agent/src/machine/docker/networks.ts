// One bridge network per environment. This file chooses the subnet, as the engine's own pools end after 29 networks:
// the first /26 of our pool that no route of the host, network of the engine or row of the ledger covers.

import type { NetworkInspectInfo } from 'dockerode'
import { NETWORKS } from '../../limits/docker.ts'
import type { AgentSettings } from '../../settings.ts'
import type { Engine } from './engine.ts'
import { EngineError, isNotFound } from './engine-error.ts'
import { LABELS, networkName, type OwnerSettings, ownedFilter } from './names.ts'
import { overlaps, parseRange, type Range, readRoutes, writeAddress } from './subnets.ts'

type NetworkSettings = Pick<AgentSettings, 'accountPrefix' | 'networkPool'>

export interface Network {
  name: string
  id: string
  /** `10.214.0.64/26`. */
  subnet: string
}

export interface OwnedNetwork extends Network {
  labels: Record<string, string>
}

const subnetsOf = (raw: NetworkInspectInfo): string[] =>
  (raw.IPAM?.Config ?? []).flatMap(({ Subnet }) => (Subnet ? [Subnet] : []))

const toNetwork = (raw: NetworkInspectInfo): Network => ({
  name: raw.Name,
  id: raw.Id,
  subnet: subnetsOf(raw)[0] ?? '',
})

const listNetworks = (engine: Engine, filters = '{}'): Promise<NetworkInspectInfo[]> =>
  engine.docker().then((docker) => docker.listNetworks({ filters }))

export interface NetworkWish {
  environmentId: number
  labels: Record<string, string>
  /** For code of a fork: its containers reach only each other; this server can reach them. */
  isIsolated?: boolean
  /** Subnets that the ledger has given to environments; their networks may not exist now. */
  takenSubnets: string[]
  /** Called before the network is made, for the ledger's row; called again when the engine refuses a subnet. */
  onChosen?: (network: { name: string; subnet: string }) => void
}

/** Makes the environment's network if it is missing. An environment has one attempt at a time, so there is no race. */
export async function ensureNetwork(
  engine: Engine,
  settings: NetworkSettings,
  wish: NetworkWish,
): Promise<Network> {
  const name = networkName(settings, wish.environmentId)
  const all = await listNetworks(engine)
  const found = all.find((raw) => raw.Name === name)
  if (found) return ours(found, wish)
  const pool = parseRange(settings.networkPool)
  if (!pool) throw new EngineError('refused', `${settings.networkPool} is no range of addresses`)
  const ranges = [...all.flatMap(subnetsOf), ...wish.takenSubnets].flatMap((text) => {
    const range = parseRange(text)
    return range ? [range] : []
  })
  const taken = [...ranges, ...readRoutes().filter((route) => !covers(route, pool))]
  for (let n = 0; n < NETWORKS.tries; n += 1) {
    const range = chooseSubnet(pool, taken)
    if (!range) break
    const made = await makeNetwork(engine, name, range, wish)
    if (made) return made
    taken.push(range)
  }
  const used = countTaken(pool, taken)
  throw new EngineError(
    'refused',
    `No free /${NETWORKS.prefix} network in ${settings.networkPool} (${used.toLocaleString('en')} in use).`,
  )
}

/** Rejects a network of another agent on this engine, and one with internet access when the code is a fork's. */
function ours(raw: NetworkInspectInfo, { labels, isIsolated = false }: NetworkWish): Network {
  if (raw.Labels?.[LABELS.agent] !== labels[LABELS.agent]) {
    const why = `network ${raw.Name} exists and does not belong to this agent`
    throw new EngineError('conflict', why)
  }
  if (!isIsolated || raw.Internal) return toNetwork(raw)
  const why = `network ${raw.Name} was made for trusted code and has a way out: remove the environment`
  throw new EngineError('conflict', why)
}

/** Such a route (of a VPN, for example) is ignored: it would leave no subnet, and our routes are more specific. */
const covers = (route: Range, pool: Range): boolean =>
  route.from <= pool.from && route.to >= pool.to

const SIZE = 2 ** (32 - NETWORKS.prefix)

function* subnetsIn(pool: Range): Generator<Range> {
  for (let from = pool.from; from + SIZE - 1 <= pool.to; from += SIZE) {
    yield { from, to: from + SIZE - 1 }
  }
}

function chooseSubnet(pool: Range, taken: Range[]): Range | undefined {
  for (const range of subnetsIn(pool)) {
    if (!taken.some((other) => overlaps(range, other))) return range
  }
  return undefined
}

const countTaken = (pool: Range, taken: Range[]): number =>
  [...subnetsIn(pool)].filter((range) => taken.some((other) => overlaps(range, other))).length

/** Undefined when the engine refuses this subnet. */
async function makeNetwork(
  engine: Engine,
  name: string,
  range: Range,
  wish: NetworkWish,
): Promise<Network | undefined> {
  const subnet = `${writeAddress(range.from)}/${NETWORKS.prefix}`
  wish.onChosen?.({ name, subnet })
  try {
    const docker = await engine.docker()
    const { id } = await docker.createNetwork({
      Name: name,
      CheckDuplicate: true,
      Driver: 'bridge',
      Internal: wish.isIsolated ?? false,
      Labels: wish.labels,
      IPAM: { Driver: 'default', Config: [{ Subnet: subnet }] },
    })
    return { name, id, subnet }
  } catch (error) {
    if (error instanceof EngineError && error.kind === 'conflict') {
      // created concurrently after our check
      const found = (await listNetworks(engine)).find((raw) => raw.Name === name)
      return found && ours(found, wish)
    }
    if (error instanceof EngineError && isOverlap(error)) return undefined
    throw error
  }
}

const isOverlap = ({ status, message }: EngineError): boolean =>
  status === 403 || /overlap|conflicts with network/i.test(message)

/**
 * Idempotent; 'in_use' when a container is connected. Names may be duplicate in the engine, so it removes all of ours.
 */
export async function removeNetwork(
  engine: Engine,
  settings: OwnerSettings,
  name: string,
): Promise<'removed' | 'in_use'> {
  const found = (await listOwnedNetworks(engine, settings)).filter((owned) => owned.name === name)
  let result: 'removed' | 'in_use' = 'removed'
  for (const { id } of found) {
    try {
      await (await engine.docker()).getNetwork(id).remove()
    } catch (error) {
      if (isNotFound(error)) continue
      if (!(error instanceof EngineError && /active endpoints/.test(error.message))) throw error
      result = 'in_use'
    }
  }
  return result
}

export async function listOwnedNetworks(
  engine: Engine,
  settings: OwnerSettings,
  environmentId?: number,
): Promise<OwnedNetwork[]> {
  const found = await listNetworks(engine, ownedFilter(settings, environmentId))
  return found.map((raw) => ({ ...toNetwork(raw), labels: raw.Labels ?? {} }))
}
