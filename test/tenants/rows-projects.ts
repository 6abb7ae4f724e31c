// Projects: settings, keys and secrets, repository, webhook deliveries, pull requests.
import type { Row } from './rows.ts'
import type { Ids } from './world.ts'

const project = (o: Ids) => ({ params: { id: o.project } })
const delivery = (o: Ids) => ({ params: { id: o.delivery } })

export const PROJECT_ROWS: Record<string, Row> = {
  'PATCH /api/projects/{id}': {
    accepts: [200],
    ask: (o) => ({ ...project(o), body: { auto_deploy: true } }),
    mixed: [
      (own, other) => ({ ...project(own), body: { server_ids: [other.server] } }),
      (own, other) => ({ ...project(own), body: { server_ids: [own.server, other.server] } }),
      (own, other) => ({ ...project(own), body: { default_server_id: other.server } }),
    ],
  },
  'DELETE /api/projects/{id}': { accepts: [409], ask: project }, // without its name
  'GET /api/projects/{id}/tasks': { accepts: [200], ask: project },
  'POST /api/projects/{id}/webhook_secret': { accepts: [201], ask: project, only: ['owner'] },
  'DELETE /api/projects/{id}/webhook_secret/previous': {
    accepts: [204],
    ask: async (o) => {
      await o.make(`/api/projects/${o.project}/webhook_secret`)
      return project(o)
    },
    elsewhere: project,
    only: ['owner'],
  },
  'GET /api/projects/{id}/deploy_key': { accepts: [200], ask: project },
  'POST /api/projects/{id}/deploy_key': { accepts: [201], ask: project },
  'GET /api/projects/{id}/host_key': { accepts: [200, 429], ask: project },
  'POST /api/projects/{id}/host_key': {
    accepts: [409, 429], // its repository is not read over ssh
    ask: (o) => ({ ...project(o), body: { fingerprint: `SHA256:${'A'.repeat(43)}` } }),
    only: ['owner'],
  },
  'PUT /api/projects/{id}/basic_auth': {
    accepts: [200],
    ask: (o) => ({ ...project(o), body: { mode: 'off' } }),
  },
  'PUT /api/projects/{id}/environment_limit': {
    accepts: [200],
    ask: (o) => ({ ...project(o), body: { limit: 30 } }),
  },
  'POST /api/projects/{id}/repository_check': { accepts: [200, 429], ask: project },
  'POST /api/projects/{id}/reconcile': { accepts: [202, 429], ask: project },
  'PUT /api/projects/{id}/host_token': {
    accepts: [422], // nobody answers at the repository's address
    ask: (o) => ({ ...project(o), body: { token: 'x' } }),
  },
  'DELETE /api/projects/{id}/host_token': { accepts: [204], ask: project },
  'GET /api/projects/{id}/deliveries': { accepts: [200], ask: project },
  'GET /api/projects/{id}/refused_deliveries': { accepts: [200], ask: project },
  'GET /api/deliveries/{id}': { accepts: [200], ask: delivery },
  'POST /api/deliveries/{id}/redeliver': { accepts: [202], ask: delivery },
  'GET /api/projects/{id}/pull_requests': { accepts: [200], ask: project },
  'POST /api/projects/{id}/pull_requests/{number}/approve': {
    accepts: [409], // it is no fork's
    ask: (o) => ({
      params: { id: o.project, number: 7 },
      body: { head_sha: 'a'.repeat(40) },
    }),
    mixed: [
      (own, other) => ({
        params: { id: other.project, number: 7 },
        body: { head_sha: String(own.project).padStart(40, '0') },
      }),
    ],
  },
  'POST /webhooks/{project_id}': {
    accepts: [401, 429],
    ask: (o) => ({ params: { project_id: o.project }, body: {} }),
  },
}
