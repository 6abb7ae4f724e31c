// Lists the repositories that the token of a connection opens, page by page as the forge gives them, and marks those
// that a project of the organization has already.
import { AppError } from '@berth/shared'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { normaliseAddress } from '../../../domain/forges/repository-match.ts'
import { ForgeError, type ListedRepository } from '../../../forges/clients/forge.ts'
import { listRepositoryUrls } from '../../../store/forges/connections.ts'
import { loadForgeConnection } from '../../core/access.ts'
import { countForgeCall, refusalOf } from './finding.ts'
import { placeOf } from './opening.ts'

export interface RepositoryView extends ListedRepository {
  projectIds: number[]
}

interface AskedRepositories {
  search: string
  size: number
  from: string | null
}

const keyOf = (url: string): string => {
  const { host, path } = normaliseAddress(url)
  return `${host} ${path}`
}

export async function listForgeRepositories(
  ctx: Context,
  caller: Caller,
  connectionId: number,
  asked: AskedRepositories,
): Promise<{ repositories: RepositoryView[]; next: string | null }> {
  const connection = await loadForgeConnection(ctx.db, caller, connectionId, 'project:write')
  const place = await placeOf(ctx, connection)
  if (!place) {
    throw new AppError('forge_unreachable', 'The token cannot be read any more. Give it again.')
  }
  await countForgeCall(ctx, caller)
  try {
    const page = await ctx.outbound.openAccount(place).listRepositories(asked)
    const urls = await listRepositoryUrls(ctx.db, connection.organizationId)
    const known = Map.groupBy(urls, ({ repoUrl }) => keyOf(repoUrl))
    const projectsOf = ({ sshUrl, httpsUrl }: ListedRepository): number[] => {
      const addresses = new Set([sshUrl, httpsUrl].filter((url) => url !== '').map(keyOf))
      return [...addresses].flatMap((key) => known.get(key)?.map(({ id }) => id) ?? [])
    }
    const repositories = page.repositories.map((repository) => ({
      ...repository,
      projectIds: [...new Set(projectsOf(repository))].toSorted((a, b) => a - b),
    }))
    return { repositories, next: page.next }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    throw refusalOf(error, connection.provider, 'list', 'token')
  }
}
