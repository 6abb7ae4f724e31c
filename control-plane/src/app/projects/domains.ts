// The names of a project's environments, and what the last look at each found: where it leads, and its certificate.
// Looks happen on request, outside any transaction; the newest results are kept.
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type DomainState, judgeDomain } from '../../domain/environments/domain-check.ts'
import { DOMAIN_CHECKS } from '../../limits/forges.ts'
import {
  type DomainCheck,
  listDomainChecks,
  saveDomainChecks,
} from '../../store/environments/domain-checks.ts'
import { listProjectHosts } from '../../store/environments/hostnames.ts'
import { listProjectServers, type Project } from '../../store/projects/projects.ts'
import { loadProject } from '../core/access.ts'
import { change } from '../core/transaction.ts'

export interface DomainView {
  host: string
  /** Null for the name that stands for all pull requests. */
  environment: { id: number; identifier: string } | null
  server: { id: number; name: string }
  check: (Seen & { checkedAt: number }) | null
}

type Seen = DomainState & { addresses: string[] }

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

async function viewAll(ctx: Context, names: readonly Named[]): Promise<DomainView[]> {
  const hosts = [...new Set(names.map(({ host }) => host))]
  const rows = await listDomainChecks(ctx.db, hosts)
  const checks = new Map(rows.map((row) => [keyOf(row.host, row.serverId), row]))
  return names.map(({ host, environment, server }) => {
    const found = checks.get(keyOf(host, server.id))
    return {
      host,
      environment,
      server: { id: server.id, name: server.name },
      check: found ? { ...(JSON.parse(found.result) as Seen), checkedAt: found.checkedAt } : null,
    }
  })
}

export async function listDomains(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<DomainView[]> {
  const project = await loadProject(ctx.db, caller, projectId, 'read')
  return viewAll(ctx, await listNames(ctx, project))
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
  const left = [...new Map(names.map((name) => [keyOf(name.host, name.server.id), name])).values()]
  const checks: DomainCheck[] = []
  const work = async (): Promise<void> => {
    for (let name = left.shift(); name; name = left.shift()) checks.push(await look(ctx, name))
  }
  await Promise.all(Array.from({ length: DOMAIN_CHECKS.atOnce }, work))
  await change(ctx, ({ db }) => saveDomainChecks(db, checks, DOMAIN_CHECKS.kept))
  return viewAll(ctx, names)
}

async function look(ctx: Context, { host, server }: Named): Promise<DomainCheck> {
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
  const seen: Seen = { ...state, addresses }
  return { host, serverId: server.id, result: JSON.stringify(seen), checkedAt }
}
