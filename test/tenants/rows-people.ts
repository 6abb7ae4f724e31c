// Organizations, members, invitations, tokens, logins and what platform administrators see.
import { insertMember, insertUser } from '../../control-plane/src/store/people.ts'
import type { Row } from './rows.ts'
import { type Ids, MISSING, type Organization, type World } from './world.ts'

const inOrganization = (o: Ids) => ({ params: { id: o.organization } })
const link = { body: { token: 'x' } }
const email = (w: World) => `made-${w.next()}@example.com`

async function freshMember(o: Organization, w: World): Promise<number> {
  const { db } = w.cp.running.ctx
  const id = await insertUser(db, { name: 'made', email: email(w), createdAt: 1 })
  const member = { organizationId: o.organization, userId: id, role: 'viewer' as const }
  await insertMember(db, { ...member, createdAt: 1 })
  return id
}

async function freshInvitation(o: Organization, w: World) {
  const path = `/api/organizations/${o.organization}/invitations`
  const { id } = await o.make(path, { email: email(w), role: 'viewer' })
  return { params: { id: o.organization, invitation_id: id } }
}

const someInvitation = (o: Ids) => ({ params: { id: o.organization, invitation_id: 1 } })

export const PEOPLE_ROWS: Record<string, Row> = {
  'GET /api/organizations': { accepts: [200], isList: true },
  'POST /api/organizations': {
    accepts: [409], // its maker would be a member, and the administrator of the matrix is none
    ask: (o) => ({ body: { name: 'Made', slug: o.name ?? 'north' } }),
  },
  'PATCH /api/organizations/{id}': {
    accepts: [200],
    ask: (o) => ({ ...inOrganization(o), body: { name: 'renamed' } }),
  },
  'DELETE /api/organizations/{id}': { accepts: [409], ask: inOrganization },
  'GET /api/organizations/{id}/members': { accepts: [200], ask: inOrganization },
  'PATCH /api/organizations/{id}/members/{user_id}': {
    accepts: [200],
    ask: (o) => ({
      params: { id: o.organization, user_id: o.users.viewer },
      body: { role: 'viewer' },
    }),
    elsewhere: (o) => ({ params: { id: o.organization, user_id: 1 }, body: { role: 'viewer' } }),
  },
  'DELETE /api/organizations/{id}/members/{user_id}': {
    accepts: [204],
    ask: async (o, w) => ({ params: { id: o.organization, user_id: await freshMember(o, w) } }),
    elsewhere: (o) => ({ params: { id: o.organization, user_id: 1 } }),
  },
  'GET /api/organizations/{id}/invitations': { accepts: [200], ask: inOrganization },
  'POST /api/organizations/{id}/invitations': {
    accepts: [201],
    ask: (o, w) => ({ ...inOrganization(o), body: { email: email(w), role: 'viewer' } }),
  },
  'POST /api/organizations/{id}/invitations/{invitation_id}/resend': {
    accepts: [202],
    ask: freshInvitation,
    elsewhere: someInvitation,
  },
  'DELETE /api/organizations/{id}/invitations/{invitation_id}': {
    accepts: [204],
    ask: freshInvitation,
    elsewhere: someInvitation,
  },
  'POST /api/invitations/accept': { accepts: [410], ask: () => link },
  'POST /api/invitations/describe': { accepts: [410, 429], ask: () => link },
  'POST /api/invitations/register': {
    accepts: [410, 429],
    ask: () => ({ body: { token: 'x', name: 'Eve', password: 'long enough for this' } }),
  },
  'GET /api/tokens': { accepts: [200] },
  'POST /api/tokens': {
    accepts: [201],
    ask: () => ({ body: { name: 'made', scopes: ['read'], expires_in_days: 1 } }),
  },
  'DELETE /api/tokens/{id}': {
    accepts: [204, 404], // the owner's own; to everybody else it does not exist
    ask: async (o) => {
      const body = { name: 'made', scopes: ['read'], expires_in_days: 1 }
      return { params: { id: (await o.make('/api/tokens', body)).id } }
    },
    // the first token is that of the set-up, which is nobody's here
    elsewhere: (o) => ({ params: { id: o === MISSING ? o.organization : 1 } }),
  },
  'GET /api/admin/users': { accepts: [200] },
  'PATCH /api/admin/users/{id}': {
    accepts: [200],
    ask: (o) => ({ params: { id: o.users.viewer }, body: { disabled: false } }),
    elsewhere: (o) => ({ params: { id: o === MISSING ? o.organization : 1 }, body: {} }),
  },
  'GET /api/admin/organizations': { accepts: [200] },
  'GET /api/admin/projects': { accepts: [200] },
  'GET /.well-known/oauth-authorization-server': { accepts: [200] },
  // forms are taken, JSON is not
  'POST /api/oauth/device_authorization': { accepts: [400, 429], ask: () => ({ body: {} }) },
  'POST /api/oauth/token': { accepts: [400, 429], ask: () => ({ body: {} }) },
  'POST /api/oauth/revoke': { accepts: [400, 429], ask: () => ({ body: {} }) },
}
