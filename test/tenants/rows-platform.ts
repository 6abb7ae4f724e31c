// The caller, projects, servers, the audit log, what needs no token, and the doors of agents.
import { randomUUID } from 'node:crypto'
import type { Row } from './rows.ts'

const HOST = { hostname: 'h', os: 'linux', arch: 'x64', agent_version: '1.15.0' }
const project = (n: number, servers: number[]) => ({
  name: `made-${n}`,
  repo_url: 'http://127.0.0.1:9/made.git',
  domain: `made-${n}.example.com`,
  server_ids: servers,
})

export const PLATFORM_ROWS: Record<string, Row> = {
  'GET /api/me': { accepts: [200] },
  'GET /api/projects': { accepts: [200], isList: true },
  'POST /api/projects': {
    accepts: [201],
    ask: (o, w) => ({ body: project(w.next(), [o.server]) }),
    mixed: [
      (_own, other, w) => ({ body: project(w.next(), [other.server]) }),
      (own, other, w) => ({ body: project(w.next(), [own.server, other.server]) }),
    ],
    isCreation: true,
  },
  'GET /api/projects/{id}': { accepts: [200], ask: (o) => ({ params: { id: o.project } }) },
  'GET /api/servers': { accepts: [200], isList: true },
  'POST /api/servers': {
    accepts: [201],
    ask: (_o, w) => ({ body: { name: `made-${w.next()}`, hostname: 'h' } }),
    isCreation: true,
  },
  'GET /api/servers/{id}': { accepts: [200], ask: (o) => ({ params: { id: o.server } }) },
  'POST /api/servers/{id}/join_token': {
    accepts: [201],
    ask: (o) => ({ params: { id: o.server }, body: { rejoin: true } }),
  },
  'GET /api/organizations/{id}/audit': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.organization } }),
  },
  'GET /api/admin/audit': { accepts: [200] },
  'GET /api/admin/data_keys': { accepts: [200] },
  'POST /api/admin/data_keys/rotate': {
    accepts: [201],
    ask: (o) => ({ body: { organization_id: o.organization } }),
  },
  'GET /api/admin/ssh_authorities': { accepts: [200] },
  'POST /api/admin/ssh_authorities/{kind}/announce': {
    accepts: [201, 409],
    ask: () => ({ params: { kind: 'host' } }),
  },
  'POST /api/admin/ssh_authorities/{kind}/adopt': {
    accepts: [200, 404, 409],
    ask: () => ({ params: { kind: 'host' } }),
  },
  'POST /api/admin/ssh_authorities/{kind}/retire': {
    accepts: [204, 404, 409],
    ask: () => ({ params: { kind: 'host' } }),
  },

  'GET /api/health': { accepts: [200] },
  'GET /api/openapi.json': { accepts: [200] },
  'GET /api/docs': { accepts: [200] },
  'GET /docs/errors/{code}': { accepts: [200], ask: () => ({ params: { code: 'not_found' } }) },
  'GET /schemas/service.v1.json': { accepts: [200] },
  'GET /install.sh': { accepts: [404] }, // no agent is packaged
  'GET /install/{name}': { accepts: [404, 429], ask: () => ({ params: { name: 'x' } }) },
  'POST /api/setup': {
    accepts: [409, 429],
    ask: () => ({ body: { token: 'x', name: 'Eve', email: 'eve@example.com', organization: 'E' } }),
  },
  'POST /api/agent/enroll': {
    accepts: [401, 429],
    ask: () => ({ body: { token: 'x', csr: 'x', install_id: randomUUID(), host: HOST } }),
  },
  'POST /api/agent/renew/challenge': {
    accepts: [403, 429],
    ask: () => ({ body: { certificate: 'x' } }),
  },
  'POST /api/agent/renew': {
    accepts: [403, 429],
    ask: () => ({ body: { certificate: 'x', csr: 'x', nonce: 'x', signature: 'x' } }),
  },
}
