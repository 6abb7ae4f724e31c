// Names the permission of a token that each step at a forge needs, in the words of that forge, so that a refusal says
// exactly what to add.
import type { ForgeError, ForgeProvider } from '../forge.ts'

export type ForgeStep = 'repository' | 'list' | 'deploy_key' | 'webhook'

type Permissions = Record<ForgeStep, string>

const GITEA: Permissions = {
  repository: 'read:repository',
  list: 'read:user and read:repository',
  deploy_key: 'write:repository, from an administrator of the repository',
  webhook: 'write:repository, from an administrator of the repository',
}

const PERMISSIONS: Record<ForgeProvider, Permissions> = {
  github: {
    repository: 'Metadata: read (classic token: repo)',
    list: 'Metadata: read (classic token: repo)',
    deploy_key: 'Administration: read and write (classic token: repo)',
    webhook: 'Webhooks: read and write (classic token: admin:repo_hook)',
  },
  gitlab: {
    repository: 'scope api, role Reporter',
    list: 'scope api',
    deploy_key: 'scope api, role Maintainer',
    webhook: 'scope api, role Maintainer',
  },
  gitea: GITEA,
  forgejo: GITEA,
  bitbucket_cloud: {
    repository: 'Repositories: read',
    list: 'Account: read and Repositories: read',
    deploy_key: 'Repositories: admin',
    webhook: 'Webhooks: read and write',
  },
  bitbucket_server: {
    repository: 'Repository read',
    list: 'Repository read',
    deploy_key: 'Repository admin',
    webhook: 'Repository admin',
  },
}

const permissionFor = (provider: ForgeProvider, step: ForgeStep): string =>
  PERMISSIONS[provider][step]

/** The permission that a refused step lacks; null if the refusal has another reason. */
export function missingPermission(
  error: ForgeError,
  provider: ForgeProvider,
  step: ForgeStep,
): string | null {
  // forges hide what a token may not see, so "not found" below a repository that is there means the same
  const isHidden = error.trouble === 'not_found' && step !== 'repository'
  if (error.trouble !== 'token_rejected' && !isHidden) return null
  const named = permissionFor(provider, step)
  return error.wanted ? `${named}; ${error.wanted}` : named
}

/** What a user reads when a step was refused. */
export function explainRefusal(
  error: ForgeError,
  provider: ForgeProvider,
  step: ForgeStep,
): { message: string; permission: string | null } {
  const permission = missingPermission(error, provider, step)
  if (permission === null) return { message: error.message, permission }
  return { message: `${error.message} The token needs: ${permission}.`, permission }
}
