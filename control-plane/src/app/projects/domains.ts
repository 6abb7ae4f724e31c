// The names of a project's environments, and what the last look at each found: where it leads, and its certificate.
// Looks happen on request, outside any transaction. Their results are kept in memory: after a restart a name counts as
// not checked.
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type DomainState, judgeDomain } from '../../domain/environments/domain-check.ts'
import { DOMAIN_CHECKS } from '../../limits/forges.ts'
import { listProjectHosts } from '../../store/environments/hostnames.ts'
import { listProjectServers, type Project } from '../../store/projects/projects.ts'
import { loadProject } from '../core/access.ts'

export interface DomainView {
  host: string
  /** Null for the name that stands for all pull requests. */
  environment: { id: number; identifier: string } | null
  server: { id: number; name: string }
  check: (DomainState & { addresses: string[]; checkedAt: number }) | null
}

type Check = NonNullable<DomainView['check']>

const results = new WeakMap<Context, Map<string, Check>>()

const resultsOf = (ctx: Context): Map<string, Check> => {
  const known = results.get(ctx) ?? new Map<string, Check>()
  results.set(ctx, known)
  return known
}

/** Bounded: the oldest result is dropped first. */
function keep(ctx: Context, key: string, check: Check): void {
  const known = resultsOf(ctx)
  known.delete(key)
  known.set(key, check)
  const [oldest] = known.keys()
  if (known.size > DOMAIN_CHECKS.kept && oldest !== undefined) known.delete(oldest)
}

const WILDCARD = '*.'
const keyOf = (host: string, serverId: number): string => `${host} ${serverId}`

interface Named {
  host: string
  environment: DomainView['environment']
  server: { id: number; name: string; hostname: string }
}

async function listNames(ctx: Context, project: Project): Promise<Named[]> {
  const servers = (await listProjectServers(ctx.db, [project.id])).get(project.id) ?? []
  const hosts = await listProjectHosts(ctx.db, project.id, DOMAIN_CHECKS.hosts)
  const first = servers.find((one) => one.id === project.defaultServerId) ?? servers[0]
  const forAll: Named[] = first
    ? [{ host: `${WILDCARD}${project.domain}`, environment: null, server: first }]
    : []
  const own = hosts.map(({ host, environmentId, identifier, ...server }) => ({
    host,
    environment: { id: environmentId, identifier },
    server: { id: server.serverId, name: server.serverName, hostname: server.serverHostname },
  }))
  return [...forAll, ...own]
}

const view = (ctx: Context, { host, environment, server }: Named): DomainView => ({
  host,
  environment,
  server: { id: server.id, name: server.name },
  check: resultsOf(ctx).get(keyOf(host, server.id)) ?? null,
})

export async function listDomains(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<DomainView[]> {
  const project = await loadProject(ctx.db, caller, projectId, 'read')
  return (await listNames(ctx, project)).map((name) => view(ctx, name))
}

/** Looks at every name now, a few at a time. */
export async function checkDomains(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<DomainView[]> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  await ctx.quotas.narrow.repositoryChecks.take(`user ${caller.userId}`)
  const names = await listNames(ctx, project)
  const left = [...names]
  const work = async (): Promise<void> => {
    for (let name = left.shift(); name; name = left.shift()) await look(ctx, name)
  }
  await Promise.all(Array.from({ length: DOMAIN_CHECKS.atOnce }, work))
  return names.map((name) => view(ctx, name))
}

async function look(ctx: Context, { host, server }: Named): Promise<void> {
  const isWildcard = host.startsWith(WILDCARD)
  // any name below the domain must lead to the server
  const asked = isWildcard ? `berth-check.${host.slice(WILDCARD.length)}` : host
  const [addresses, wanted] = await Promise.all([
    ctx.outbound.resolve(asked),
    ctx.outbound.resolve(server.hostname),
  ])
  const isLooked = !isWildcard && addresses.length > 0
  const tls = isLooked ? await ctx.outbound.lookAtTls(asked) : undefined
  const checkedAt = ctx.clock.now()
  const state = judgeDomain(
    { addresses, wanted, tls },
    { host, server: server.name, now: checkedAt },
  )
  keep(ctx, keyOf(host, server.id), { ...state, addresses, checkedAt })
}
