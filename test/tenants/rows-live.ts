// One row a procedure of the dashboard's router: what it needs, how to ask for it in an organization, and which answers
// somebody who may do it gets. A procedure without a row fails the matrix.
import type { Permission, Role } from '@berth/shared/rest'
import { LIVE_PEOPLE_ROWS } from './rows-live-people.ts'
import type { Ids, Organization, World } from './world.ts'

export interface LiveRow {
  /** `token`: anybody who is somebody. `browser`: the same, but a token is not enough. `nothing`: anybody. */
  needs: Permission | 'token' | 'browser' | 'platform_admin' | 'nothing'
  /** Whoever may do it gets one of these: success, or a refusal by state, never by permission. */
  accepts?: readonly number[]
  /** Absent: it takes no ids and answers for the caller. */
  input?: (ids: Ids) => object
  /** The same for one's own organization, where it takes something fresh or no id at all. */
  own?: (own: Organization, world: World) => object | Promise<object>
  /** One's own things asked for with a number of another organization beside them: own things, or nothing. */
  mixed?: (own: Organization, other: Ids) => object
  /** Changes of one's own things that name things of another organization: refused. */
  crossed?: (own: Organization, other: Ids, world: World) => object
  /** A subscription that hears nothing of the bus. */
  isQuiet?: boolean
  /** A subscription's position before everything, where it is not a plain number. */
  first?: string
  /** What the answer lists for somebody without a membership: nothing. */
  listed?: (data: Record<string, unknown[]>) => unknown[] | undefined
  /** These roles alone, where a rule beyond `needs` decides. */
  only?: readonly Role[]
  /** Making needs an organization: somebody without a membership is told so. */
  isCreation?: boolean
}

const project = (o: Ids) => ({ project_id: o.project })
const environment = (o: Ids) => ({ environment_id: o.environment })
const task = (o: Ids) => ({ task_id: o.task })
const server = (o: Ids) => ({ server_id: o.server })
const delivery = (o: Ids) => ({ delivery_id: o.delivery })
const LINE = { from: 1, to: 10 }
const HEAD = 'a'.repeat(40)

const newProject = (n: number, servers: number[]) => ({
  name: `made-${n}`,
  repo_url: 'http://127.0.0.1:9/made.git',
  domain: `made-${n}.example.com`,
  server_ids: servers,
})
const newEnvironment = (o: Ids, n: number) => ({
  ...project(o),
  identifier: `made-${n}`,
  branch: 'main',
})

const PROJECT_ROWS: Record<string, LiveRow> = {
  'project.list': {
    needs: 'token',
    mixed: (_own, other) => ({ after: { name: '', id: other.project } }),
    listed: (data) => data.projects,
  },
  'project.get': { needs: 'read', input: project },
  'project.create': {
    needs: 'project:write',
    own: (o, w) => newProject(w.next(), [o.server]),
    crossed: (own, other, w) => newProject(w.next(), [own.server, other.server]),
    isCreation: true,
  },
  'project.update': {
    needs: 'project:write',
    input: (o) => ({ ...project(o), auto_deploy: true }),
    crossed: (own, other) => ({ ...project(own), default_server_id: other.server }),
  },
  'project.delete': { needs: 'project:write', accepts: [409], input: project }, // without its name
  'project.regenerateSecret': { needs: 'read', input: project, only: ['owner'] },
  'project.endPreviousSecret': { needs: 'read', input: project, only: ['owner'] },
  'project.deployKey': { needs: 'read', input: project },
  'project.replaceDeployKey': { needs: 'project:write', input: project },
  // the repository of the matrix is not read over ssh
  'project.hostKey': { needs: 'read', accepts: [200, 429], input: project },
  'project.trustHostKey': {
    needs: 'read',
    accepts: [409, 429],
    input: (o) => ({ ...project(o), fingerprint: `SHA256:${'A'.repeat(43)}` }),
    only: ['owner'],
  },
  'project.setBasicAuth': {
    needs: 'project:write',
    input: (o) => ({ ...project(o), basic_auth: { mode: 'off' } }),
  },
  'project.setLimit': {
    needs: 'platform_admin',
    input: (o) => ({ ...project(o), limit: 30 }),
  },
  'project.check': { needs: 'project:write', accepts: [200, 429], input: project },
  'project.reconcile': { needs: 'deploy', accepts: [200, 429], input: project },
  'project.setHostToken': {
    needs: 'project:write',
    accepts: [422], // nobody answers at the repository's address
    input: (o) => ({ ...project(o), token: 'x' }),
  },
  'project.removeHostToken': { needs: 'project:write', input: project },
  'project.events': { needs: 'read', input: project },
  'delivery.list': {
    needs: 'read',
    input: project,
    mixed: (own, other) => ({ ...project(own), cursor: other.delivery }),
  },
  'delivery.refused': { needs: 'read', input: project },
  'delivery.get': { needs: 'read', input: delivery },
  'delivery.replay': { needs: 'project:write', input: delivery },
  'pullRequest.list': { needs: 'read', input: project },
  'pullRequest.approve': {
    needs: 'deploy',
    accepts: [409], // it is no fork's
    input: (o) => ({ ...project(o), number: 7, head_sha: HEAD }),
  },
}

const ENVIRONMENT_ROWS: Record<string, LiveRow> = {
  'environment.list': { needs: 'read', input: project },
  'environment.get': { needs: 'read', input: environment },
  'environment.create': {
    needs: 'environment:write',
    accepts: [200, 409], // 409: at its limit, when many rows made one
    own: (o, w) => newEnvironment(o, w.next()),
    input: (o) => newEnvironment(o, 0),
    crossed: (own, other, w) => ({ ...newEnvironment(own, w.next()), server_id: other.server }),
  },
  'environment.update': {
    needs: 'environment:write',
    input: (o) => ({ ...environment(o), sticky: true }),
    crossed: (own, other) => ({ ...environment(own), owner_id: other.user }),
  },
  'environment.delete': { needs: 'environment:write', accepts: [409], input: environment }, // busy
  'environment.reset': {
    needs: 'environment:write',
    accepts: [409], // without its name
    input: (o) => ({ environment_id: o.free }),
  },
  'environment.setBasicAuth': {
    needs: 'environment:write',
    input: (o) => ({ ...environment(o), basic_auth: { mode: 'inherit' } }),
  },
  'environment.diagnostics': { needs: 'read', input: environment },
  'environment.deploy': {
    needs: 'deploy',
    accepts: [200, 409], // 409: the one of before is still queued
    input: environment,
  },
  'environment.logs': { needs: 'read', input: environment, isQuiet: true },
  'environment.events': { needs: 'read', input: environment },
  'variable.list': { needs: 'read', input: environment },
  'variable.change': {
    needs: 'variables:write',
    input: (o) => ({ ...environment(o), set: { A: 'x' } }),
  },
  'action.list': { needs: 'read', input: environment },
  'action.run': {
    needs: 'deploy',
    accepts: [409], // nothing was deployed
    input: (o) => ({ environment_id: o.free, name: 'seed' }),
  },
  'task.list': {
    needs: 'read',
    input: environment,
    mixed: (own, other) => ({ ...environment(own), before: other.task }),
  },
  'task.get': { needs: 'read', input: task },
  'task.compare': { needs: 'read', input: task },
  'task.log': { needs: 'read', input: (o) => ({ ...task(o), ...LINE }) },
  'task.search': { needs: 'read', input: (o) => ({ ...task(o), query: 'x' }) },
  'task.errors': { needs: 'read', input: task },
  'task.logTicket': { needs: 'browser', own: task },
  'artifact.list': { needs: 'read', input: task },
  'artifact.ticket': { needs: 'browser', own: (o) => ({ artifact_id: o.artifact }) },
  'task.cancel': {
    needs: 'deploy',
    accepts: [200, 409], // 409: canceled by the one before
    input: task,
  },
  'task.stream': { needs: 'read', input: task, first: '0.0.0' },
}

const SERVER_ROWS: Record<string, LiveRow> = {
  'server.list': { needs: 'token', listed: (data) => data.servers },
  'server.get': { needs: 'read', input: server },
  'server.usage': { needs: 'read', input: server },
  'server.create': {
    needs: 'server:write',
    own: (_o, w) => ({ name: `made-${w.next()}`, hostname: 'h' }),
    isCreation: true,
  },
  'server.update': { needs: 'server:write', input: (o) => ({ ...server(o), paused: false }) },
  'server.delete': { needs: 'server:write', accepts: [409], input: server }, // it is in use
  'server.joinToken': { needs: 'server:write', input: (o) => ({ ...server(o), rejoin: true }) },
  'server.endJoinToken': { needs: 'server:write', input: server },
  'server.revokeAgent': {
    needs: 'server:write',
    own: async (o, w) => {
      const made = await o.make('/api/servers', { name: `made-${w.next()}`, hostname: 'h' })
      return { server_id: made.id }
    },
    input: server,
  },
  'server.certificates': { needs: 'audit:read', input: server },
  'server.revokeCertificate': {
    needs: 'read',
    accepts: [404], // there is no such certificate
    input: (o) => ({ ...server(o), serial: '4711' }),
    only: ['admin', 'owner'], // anybody's, that is; one's own everybody may
  },
}

export const LIVE_ROWS: Record<string, LiveRow> = {
  ...LIVE_PEOPLE_ROWS,
  ...PROJECT_ROWS,
  ...ENVIRONMENT_ROWS,
  ...SERVER_ROWS,
}
