// Claims of hostnames, inside the transaction that stores them. A conflict never names another organization.
import { AppError, type FieldProblem, invalidFields } from '@berth/shared'
import type { Context } from '../../context.ts'
import { isAtOrBelow, isReserved, isUnlisted } from '../../domain/environments/hostnames.ts'
import type { Environment } from '../../store/environments/environments.ts'
import {
  findClaimHolder,
  insertHost,
  listClaimsBelow,
} from '../../store/environments/hostname-claims.ts'
import {
  findServerByName,
  holdDomains,
  listEnvironmentsBelow,
  listOverlappingProjects,
} from '../../store/environments/hostnames.ts'
import type { Change } from '../core/change.ts'

const inUse = (host: string): AppError =>
  new AppError('domain_in_use', `${host} is used elsewhere on this installation.`)

export const ownHost = (ctx: Context): string => new URL(ctx.baseUrl).hostname.toLowerCase()

export function reservedProblem(
  ctx: Context,
  host: string,
  field: string,
): FieldProblem | undefined {
  if (!isReserved(host, ownHost(ctx))) return undefined
  const message = `${host} is the address of Berth itself. Choose another domain.`
  return { field, code: 'reserved_domain', message }
}

/** The base domain of a project must not be at, above or below a name that another organization uses. */
export async function claimProjectDomain(
  c: Change,
  project: { id: number | null; organizationId: number },
  domain: string,
): Promise<void> {
  await holdDomains(c.db)
  const projects = await listOverlappingProjects(c.db, domain)
  const other = projects.filter((p) => p.id !== project.id)
  const taken = other.some(
    (p) => p.domain === domain || p.organizationId !== project.organizationId,
  )
  if (taken) throw inUse(domain)
  const environments = await listEnvironmentsBelow(c.db, domain)
  const claims = await listClaimsBelow(c.db, domain)
  const isForeign = (e: { organizationId: number }): boolean =>
    e.organizationId !== project.organizationId
  if (environments.some(isForeign) || claims.some(isForeign)) throw inUse(domain)
}

/** The address of an environment must be unique and not below another project's domain. */
export async function claimEnvironmentDomain(
  ctx: Context,
  c: Change,
  project: { id: number; domain: string; customDomains: string },
  environmentId: number | null,
  host: string,
): Promise<void> {
  await holdDomains(c.db)
  const reserved = reservedProblem(ctx, host, 'domain')
  if (reserved) throw invalidFields([reserved])
  const customDomains = JSON.parse(project.customDomains) as string[]
  if (ctx.config.listedDomainsOnly && isUnlisted(host, { domain: project.domain, customDomains })) {
    const message = `${host} is not below ${project.domain} and not on the project's list of custom domains.`
    throw invalidFields([{ field: 'domain', code: 'domain_not_allowed', message }])
  }
  if (await findServerByName(c.db, host)) throw inUse(host)
  // the most specific project decides: within one organization a domain may be below another
  const holders = (await listOverlappingProjects(c.db, host))
    .filter((p) => isAtOrBelow(host, p.domain))
    .toSorted((a, b) => b.domain.length - a.domain.length)
  if (holders[0] && holders[0].id !== project.id) throw inUse(host)
  const same = await listEnvironmentsBelow(c.db, host)
  if (same.some((e) => e.domain === host && e.id !== environmentId)) throw inUse(host)
  const claimed = await findClaimHolder(c.db, host)
  if (claimed && claimed.environmentId !== environmentId) throw inUse(host)
}

/** The environment serves its former address until the next deployment, so it keeps the claim until then. */
export async function keepFormerDomain(c: Change, environment: Environment): Promise<void> {
  const { id, domain, fence } = environment
  if (fence === 0) return // it was never sent to a server
  await insertHost(c.db, { host: domain, environmentId: id, fence, claimedAt: c.now })
}
