// The control planes that use a PostgreSQL now, for programs that are none themselves: migrations, the doctor, upgrades.

/** A row of `replicas` with a lease. */
export interface LiveReplica {
  id: string
  host: string
  pid: number
  version: string | null
  peer_address: string | null
}

/** Leases are judged by the clock of the database. */
export const LIVE_REPLICAS = `select id, host, pid, version, peer_address from replicas
  where lease_until >= floor(extract(epoch from clock_timestamp()) * 1000)::bigint
  order by started_at, id`

type Named = Pick<LiveReplica, 'host' | 'pid' | 'version'>

const nameOne = ({ host, pid, version }: Named): string =>
  `process ${pid} on ${host}${version === null ? '' : ` (version ${version})`}`

export const nameReplicas = (replicas: readonly Named[]): string => replicas.map(nameOne).join(', ')

/** Why something that needs the database alone cannot begin. */
export const describeOthers = (others: readonly Named[], what: string): string =>
  `${what} needs the database alone, and these control planes use it: ${nameReplicas(others)}. Stop them first; one that was killed is gone after ten seconds.`
