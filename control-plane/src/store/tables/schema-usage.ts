// Tables of what servers take of their machines.
import type { Flag } from './schema.ts'

export interface ServerUsageTable {
  serverId: number
  at: number
  cpuPermille: number
  memoryUsedBytes: number
  memoryBytes: number
  diskUsedBytes: number
  diskBytes: number
  loadHundredths: number
  dockerOk: Flag
  proxyOk: Flag
  /** JSON of store/servers/usage.ts EnvironmentUsage[]. */
  environments: string
}

export interface UsagePointsTable {
  serverId: number
  span: 'minute' | 'hour'
  /** The minute or hour, counted from 1970, modulo the length of the ring. */
  slot: number
  /** When this minute or hour began. */
  at: number
  /** Averages of so many measurements. */
  samples: number
  cpuPermille: number
  memoryUsedBytes: number
  diskUsedBytes: number
}
