// Environments, their tasks and logs.
import type { Row } from './rows.ts'

const environment = (n: number, over: object = {}) => ({
  identifier: `made-${n}`,
  branch: 'main',
  ...over,
})

export const ENVIRONMENT_ROWS: Record<string, Row> = {
  'GET /api/projects/{id}/environments': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.project } }),
  },
  'POST /api/projects/{id}/environments': {
    // 409: at its limit, when many rows made one
    accepts: [201, 409],
    ask: (o, w) => ({ params: { id: o.project }, body: environment(w.next()) }),
    mixed: [
      (own, other, w) => ({
        params: { id: own.project },
        body: environment(w.next(), { server_id: other.server }),
      }),
    ],
  },
  'GET /api/environments/{id}': { accepts: [200], ask: (o) => ({ params: { id: o.environment } }) },
  'GET /api/environments/{id}/tasks': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.environment } }),
  },
  'POST /api/environments/{id}/tasks': {
    accepts: [201, 409], // 409: the one of before is still queued
    ask: (o) => ({ params: { id: o.environment } }),
  },
  'GET /api/environments/{id}/actions': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.environment } }),
  },
  'POST /api/environments/{id}/actions/{name}/tasks': {
    accepts: [409], // nothing was deployed
    ask: (o) => ({ params: { id: o.free, name: 'seed' }, body: {} }),
  },
  'PATCH /api/environments/{id}': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.environment }, body: { sticky: true } }),
    mixed: [
      (own, other) => ({ params: { id: own.free }, body: { server_id: other.server } }),
      (own, other) => ({ params: { id: own.environment }, body: { owner_id: other.user } }),
    ],
  },
  'DELETE /api/environments/{id}': {
    accepts: [202],
    ask: async (o, w) => {
      const path = `/api/projects/${o.project}/environments`
      const { id } = await o.make(path, environment(w.next()))
      return { params: { id } }
    },
    elsewhere: (o) => ({ params: { id: o.free } }),
  },
  'POST /api/environments/{id}/reset': {
    accepts: [409], // without its name
    ask: (o) => ({ params: { id: o.free }, body: {} }),
  },
  'PUT /api/environments/{id}/basic_auth': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.environment }, body: { mode: 'inherit' } }),
  },
  'GET /api/environments/{id}/diagnostics': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.environment } }),
  },
  'GET /api/environments/{id}/variables': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.environment } }),
  },
  'PATCH /api/environments/{id}/variables': {
    accepts: [200],
    ask: (o, w) => ({ params: { id: o.environment }, body: { set: { A: String(w.next()) } } }),
  },
  'GET /api/tasks/{id}': { accepts: [200], ask: (o) => ({ params: { id: o.task } }) },
  'POST /api/tasks/{id}/cancel': {
    accepts: [202, 409], // 409: canceled by the one before
    ask: (o) => ({ params: { id: o.task } }),
  },
  'GET /api/tasks/{id}/log': { accepts: [200], ask: (o) => ({ params: { id: o.task } }) },
  'GET /api/tasks/{id}/artifacts': { accepts: [200], ask: (o) => ({ params: { id: o.task } }) },
  'GET /api/tasks/{id}/artifacts/content': {
    accepts: [503], // its server has no agent
    ask: (o) => ({ params: { id: o.task }, query: `?ids=${o.artifact}` }),
  },
  'GET /api/artifacts/{id}/content': {
    accepts: [503], // its server has no agent
    ask: (o) => ({ params: { id: o.artifact } }),
  },
}
