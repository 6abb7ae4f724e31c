// Serializes a project's repository and its forge token.
import type { HostToken, HostTokenFacts, RepositoryCheck, RepositoryFacts } from '@berth/shared/api'
import type { ForgeTokenView } from '../../app/forges/forge-tokens.ts'
import { type RepositoryCheck as CheckView, decodeLookError } from '../../app/forges/repository.ts'
import type { Project } from '../../store/projects/projects.ts'
import { timeOrNull } from './fields.ts'

export const serializeRepository = (project: Project): RepositoryFacts => ({
  provider: project.provider,
  external_id: project.externalId,
  renamed_to: project.renamedTo,
  reachable: project.reachable === null ? null : project.reachable === 1,
  checked_at: timeOrNull(project.checkedAt),
  error: decodeLookError(project.repositoryError),
})

export const serializeForgeTokenFacts = (project: Project): HostTokenFacts => ({
  set: project.hostTokenSealed !== null,
  checked_at: timeOrNull(project.hostTokenCheckedAt),
  error: project.hostTokenError,
})

export const serializeForgeToken = (view: ForgeTokenView): HostToken => ({
  set: view.set,
  host: view.host,
  checked_at: timeOrNull(view.checkedAt),
  error: view.error,
})

export const serializeRepositoryCheck = (check: CheckView): RepositoryCheck => ({
  reachable: check.reachable,
  default_branch: check.defaultBranch,
  branch_count: check.branchCount,
  service_file: check.serviceFile && {
    found: check.serviceFile.found,
    recipes: check.serviceFile.recipes,
    errors: check.serviceFile.problems
      .filter((p) => p.severity === 'error')
      .map(({ line, code, message }) => ({ line, code, message })),
  },
  error: check.error,
})
