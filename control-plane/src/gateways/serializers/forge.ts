// Serializes connections to forges, listed repositories and what Berth set up in a project's repository. A token has no
// field.
import type {
  ForgeConnection,
  ForgeDisconnected,
  ForgeFacts,
  ForgeRepository,
  ProjectForge,
} from '@berth/shared/api'
import type { ForgeConnectionView } from '../../app/forges/connections/connections.ts'
import type { Removed } from '../../app/forges/connections/installing.ts'
import type { Preview } from '../../app/forges/connections/preview.ts'
import { type ProjectForgeView, readChecks } from '../../app/forges/connections/project-forge.ts'
import type { RepositoryView } from '../../app/forges/connections/repositories.ts'
import type { ForgeSetup } from '../../store/forges/connections.ts'
import { time, timeOrNull } from './fields.ts'

export const serializeForgeConnection = (view: ForgeConnectionView): ForgeConnection => ({
  id: view.id,
  organization_id: view.organizationId,
  provider: view.provider,
  api_url: view.apiUrl,
  account: view.account,
  project_count: view.projectCount,
  created_at: time(view.createdAt),
  created_by: { id: view.createdBy, name: view.createdByName },
  checked_at: timeOrNull(view.checkedAt),
  error: view.error,
})

export const serializeForgeRepository = (view: RepositoryView): ForgeRepository => ({
  full_name: view.fullName,
  description: view.description,
  private: view.isPrivate,
  archived: view.isArchived,
  default_branch: view.defaultBranch,
  web_url: view.webUrl,
  ssh_url: view.sshUrl,
  https_url: view.httpsUrl,
  can_admin: view.canAdmin,
  updated_at: timeOrNull(view.updatedAt),
  project_ids: view.projectIds,
})

export function serializeForgeFacts(setup: ForgeSetup | null): ForgeFacts {
  if (!setup) return { connected: false, status: 'not_connected', checked_at: null }
  const checked = setup.checkedAt === null ? 'unchecked' : 'ok'
  return {
    connected: true,
    status: setup.broken === 1 ? 'broken' : checked,
    checked_at: timeOrNull(setup.checkedAt),
  }
}

export const serializeProjectForge = ({ connection, setup }: ProjectForgeView): ProjectForge => ({
  ...serializeForgeFacts(setup),
  connection: connection && serializeForgeConnection(connection),
  repository: setup?.repository ?? null,
  next_check_at: timeOrNull(setup?.nextCheckAt ?? null),
  checks: setup ? readChecks(setup) : [],
})

export const serializeDisconnected = ({ removed, left }: Removed): ForgeDisconnected => ({
  removed,
  left,
})

export const serializePreview = ({ branch, file, guess }: Preview) => ({
  branch,
  file: file && {
    recipes: file.recipes,
    services: file.services,
    actions: file.actions,
    errors: file.problems
      .filter((p) => p.severity === 'error')
      .map(({ line, message }) => ({ line, message })),
  },
  guess,
})
