// Rows of the dashboard's procedures about people: sessions, organizations, members, invitations, tokens, the audit log
// and what platform administrators do.
import { insertMember, insertUser } from '../../control-plane/src/store/people.ts'
import type { LiveRow } from './rows-live.ts'
import { type Ids, MISSING, type Organization, type World } from './world.ts'

const organization = (o: Ids) => ({ organization_id: o.organization })
const email = (w: World) => `made-${w.next()}@example.com`
const PASSWORD = 'long enough for this'
const code = () => ({ user_code: 'WDJB-MJHT' })

async function freshMember(o: Organization, w: World) {
  const { db } = w.cp.running.ctx
  const userId = await insertUser(db, { name: 'made', email: email(w), createdAt: 1 })
  const at = { organizationId: o.organization, userId, role: 'viewer' as const }
  await insertMember(db, { ...at, createdAt: 1 })
  return { ...organization(o), user_id: userId }
}

async function freshInvitation(o: Organization, w: World) {
  const path = `/api/organizations/${o.organization}/invitations`
  const { id } = await o.make(path, { email: email(w), role: 'viewer' })
  return { ...organization(o), invitation_id: id }
}

const someInvitation = (o: Ids) => ({ ...organization(o), invitation_id: 1 })
const freshToken = { name: 'made', scopes: ['read'], expires_in_days: 1 }

export const LIVE_PEOPLE_ROWS: Record<string, LiveRow> = {
  me: { needs: 'token', listed: (data) => data.organizations },
  'session.get': { needs: 'nothing' },
  'session.setUp': {
    needs: 'nothing',
    accepts: [409],
    own: () => ({
      token: 'x',
      name: 'Eve',
      email: 'eve@example.com',
      organization: 'E',
      password: PASSWORD,
    }),
  },
  'session.signIn': {
    needs: 'nothing',
    accepts: [401],
    own: (_o, w) => ({ email: email(w), password: 'x' }),
  },
  'session.signOut': { needs: 'nothing' },
  'session.requestReset': { needs: 'nothing', own: (_o, w) => ({ email: email(w) }) },
  'session.reset': {
    needs: 'nothing',
    accepts: [410],
    own: () => ({ token: 'x', password: PASSWORD }),
  },
  'session.changePassword': {
    needs: 'browser',
    own: () => ({ current_password: 'x', new_password: PASSWORD }),
  },
  'session.list': { needs: 'browser' },
  'session.revoke': { needs: 'browser', own: () => ({ session_id: 1 }) },
  'device.describe': { needs: 'browser', own: code },
  'device.approve': { needs: 'browser', own: code },
  'device.deny': { needs: 'browser', own: code },
  'organization.list': { needs: 'token', listed: (data) => data.organizations },
  'organization.create': {
    needs: 'platform_admin',
    accepts: [409], // its maker would be a member, and the administrator of the matrix is none
    own: (o) => ({ name: 'Made', slug: o.name }),
  },
  'organization.update': {
    needs: 'organization:write',
    input: (o) => ({ ...organization(o), name: 'renamed' }),
  },
  'organization.delete': { needs: 'organization:write', accepts: [409], input: organization },
  'organization.events': { needs: 'read', input: organization },
  'member.list': { needs: 'read', input: organization },
  'member.update': {
    needs: 'member:write',
    own: (o) => ({ ...organization(o), user_id: o.users.viewer, role: 'viewer' }),
    input: (o) => ({ ...organization(o), user_id: 1, role: 'viewer' }),
  },
  'member.remove': {
    needs: 'member:write',
    own: freshMember,
    input: (o) => ({ ...organization(o), user_id: 1 }),
  },
  'invitation.list': { needs: 'member:write', input: organization },
  'invitation.create': {
    needs: 'member:write',
    own: (o, w) => ({ ...organization(o), email: email(w), role: 'viewer' }),
    input: (o) => ({ ...organization(o), email: 'made@example.com', role: 'viewer' }),
  },
  'invitation.resend': { needs: 'member:write', own: freshInvitation, input: someInvitation },
  'invitation.withdraw': { needs: 'member:write', own: freshInvitation, input: someInvitation },
  'invitation.describe': { needs: 'nothing', accepts: [410], own: () => ({ token: 'x' }) },
  'invitation.register': {
    needs: 'nothing',
    accepts: [410],
    own: () => ({ token: 'x', name: 'Eve', password: PASSWORD }),
  },
  'invitation.accept': { needs: 'token', accepts: [410], own: () => ({ token: 'x' }) },
  'token.list': { needs: 'token' },
  'token.create': { needs: 'token', own: () => freshToken },
  'token.revoke': {
    needs: 'token',
    accepts: [200, 404], // the owner's own; to everybody else it does not exist
    own: async (o) => ({ token_id: (await o.make('/api/tokens', freshToken)).id }),
    // the first token is that of the set-up, which is nobody's here
    input: (o) => ({ token_id: o === MISSING ? o.organization : 1 }),
  },
  'audit.list': { needs: 'audit:read', input: organization },
  'audit.all': { needs: 'platform_admin' },
  'admin.users': { needs: 'platform_admin' },
  'admin.updateUser': {
    needs: 'platform_admin',
    own: (o) => ({ user_id: o.users.viewer, disabled: false }),
  },
  'admin.organizations': { needs: 'platform_admin' },
  'admin.projects': { needs: 'platform_admin' },
  'admin.sshAuthorities': { needs: 'platform_admin' },
  'admin.announceSshAuthority': {
    needs: 'platform_admin',
    accepts: [200, 409],
    own: () => ({ kind: 'host' }),
  },
  'admin.adoptSshAuthority': {
    needs: 'platform_admin',
    accepts: [200, 404, 409],
    own: () => ({ kind: 'host' }),
  },
  'admin.retireSshAuthority': {
    needs: 'platform_admin',
    accepts: [200, 404, 409],
    own: () => ({ kind: 'host' }),
  },
}
