// Serializes an environment, its Basic Auth and its variables to the documented fields, never a value or a hash.
import type { BasicAuth, Environment, Variable } from '@berth/shared/api'
import type { VariableView } from '../../app/environments/variables.ts'
import type { EnvironmentView } from '../../app/environments/views.ts'
import type { EffectiveAuth } from '../../domain/environments/basic-auth.ts'
import { environmentUrl, serviceUrl } from '../../domain/environments/environment.ts'
import {
  degradation,
  serviceReplicas,
  serviceRestarts,
  serviceState,
  stoppedServices,
  stopReason,
} from '../../domain/environments/observation.ts'
import { time, timeOrNull } from './fields.ts'

export const serializeBasicAuth = ({ mode, enabled, username }: EffectiveAuth): BasicAuth => ({
  mode,
  enabled,
  username,
})

function serializePullRequest({ pullRequest }: EnvironmentView): Environment['pull_request'] {
  if (!pullRequest) return null
  const { number, url, title, author, state } = pullRequest
  const fromFork = pullRequest.fromFork === 1
  return {
    number,
    url,
    title,
    author,
    state,
    draft: pullRequest.draft === 1,
    base_branch: pullRequest.baseBranch,
    from_fork: fromFork,
    head_sha: pullRequest.headSha,
    approval: !fromFork ? 'not_needed' : pullRequest.approved ? 'approved' : 'required',
  }
}

function serializeStop(e: EnvironmentView['environment']): Environment['stopped'] {
  const services = stoppedServices(e)
  if (services.length === 0 || !e.stopped) return null
  const { by, at, taskId } = e.stopped
  return { by, at: time(at), task_id: taskId, services }
}

export function serializeEnvironment(view: EnvironmentView): Environment {
  const { environment: e, server, openTask, lastTask, lastSuccess } = view
  const services = e.deployedFence > 0 ? e.services : []
  return {
    id: e.id,
    project_id: e.projectId,
    identifier: e.identifier,
    title: e.title,
    type: e.type,
    recipe: view.recipe,
    recipe_inherited: e.recipe === null,
    branch: e.branch,
    branch_missing: e.branchMissing,
    commit_sha: e.commitSha,
    target_sha: e.targetSha,
    pinned: e.pinnedFrom !== null,
    pull_request: serializePullRequest(view),
    url: environmentUrl(services, server.hostname),
    domain: e.domain,
    server,
    owner: { id: e.ownerId, name: view.ownerName },
    protected: e.protected,
    sticky: e.sticky,
    auto_deploy: e.autoDeploy,
    basic_auth: serializeBasicAuth(view.basicAuth),
    status: view.status,
    status_reason: degradation(e) ?? stopReason(e, e.stopped),
    stopped: serializeStop(e),
    locked: openTask !== undefined,
    locked_by: openTask
      ? { task_id: openTask.id, trigger: openTask.triggerBy, status: openTask.status }
      : null,
    variables_changed: view.variablesChanged,
    services: services.map((s) => ({
      name: s.name,
      url: serviceUrl(s, server.hostname),
      status: serviceState(e, s.name),
      replicas: serviceReplicas(e, s.name),
      restarts: serviceRestarts(e, s.name),
      image: s.image ?? null,
    })),
    last_task: lastTask
      ? {
          id: lastTask.id,
          status: lastTask.status,
          finished_at: timeOrNull(lastTask.finishedAt),
        }
      : null,
    deployed: lastSuccess
      ? {
          task_id: lastSuccess.id,
          commit_sha: lastSuccess.commitSha,
          at: time(lastSuccess.finishedAt),
        }
      : null,
    watching: view.watching,
    may: view.may,
    created_at: time(e.createdAt),
    updated_at: time(e.updatedAt),
  }
}

export const serializeVariable = (v: VariableView): Variable => ({
  key: v.key,
  level: v.level,
  shadows: v.shadows,
  updated_at: time(v.updatedAt),
  updated_by: { id: v.updatedBy, name: v.updatedByName },
  changed_since_deployment: v.changedSinceDeployment,
})
