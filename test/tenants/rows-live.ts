// One row a procedure of the dashboard's router: what it needs, how to ask for it in an organization, and which answers
// somebody who may do it gets. A procedure without a row fails the matrix.
import type { Permission } from '@berth/shared/rest'
import type { Ids, Organization } from './world.ts'

export interface LiveRow {
  /** `token`: anybody who is somebody. */
  needs: Permission | 'token'
  /** Whoever may do it gets one of these: success, or a refusal by state, never by permission. */
  accepts?: readonly number[]
  /** Absent: it takes no ids and answers for the caller. */
  input?: (ids: Ids) => object
  /** One's own things asked for with a number of another organization beside them: own things, or nothing. */
  mixed?: (own: Organization, other: Ids) => object
  /** A subscription's position before everything, where it is not a plain number. */
  first?: string
  /** What the answer lists for somebody without a membership: nothing. */
  listed?: (data: Record<string, unknown[]>) => unknown[] | undefined
}

export const LIVE_ROWS: Record<string, LiveRow> = {
  me: { needs: 'token', listed: (data) => data.organizations },
  'organization.events': { needs: 'read', input: (o) => ({ organization_id: o.organization }) },
  'project.list': {
    needs: 'token',
    mixed: (_own, other) => ({ after: { name: '', id: other.project } }),
    listed: (data) => data.projects,
  },
  'project.get': { needs: 'read', input: (o) => ({ project_id: o.project }) },
  'project.events': { needs: 'read', input: (o) => ({ project_id: o.project }) },
  'environment.list': { needs: 'read', input: (o) => ({ project_id: o.project }) },
  'environment.get': { needs: 'read', input: (o) => ({ environment_id: o.environment }) },
  'environment.deploy': {
    needs: 'deploy',
    accepts: [200, 409], // 409: the one of before is still queued
    input: (o) => ({ environment_id: o.environment }),
  },
  'environment.events': { needs: 'read', input: (o) => ({ environment_id: o.environment }) },
  'task.list': {
    needs: 'read',
    input: (o) => ({ environment_id: o.environment }),
    mixed: (own, other) => ({ environment_id: own.environment, before: other.task }),
  },
  'task.get': { needs: 'read', input: (o) => ({ task_id: o.task }) },
  'task.cancel': {
    needs: 'deploy',
    accepts: [200, 409], // 409: canceled by the one before
    input: (o) => ({ task_id: o.task }),
  },
  'task.stream': { needs: 'read', input: (o) => ({ task_id: o.task }), first: '0.0.0' },
}
