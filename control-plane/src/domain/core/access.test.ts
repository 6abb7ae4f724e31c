import {
  PERMISSIONS,
  type Permission,
  ROLES,
  type Role,
  SCOPES,
  type Scope,
} from '@berth/shared/api'
import { describe, expect, test } from 'vitest'
import {
  type Caller,
  effectiveMemberships,
  mayAskOrganization,
  mayChangeProtected,
  permissionsOf,
  permit,
} from './access.ts'

/** The documented table of roles and permissions; one row per permission. */
const TABLE: Record<Permission, string> = {
  //                   viewer developer admin owner
  read: /*            */ 'y   y         y     y',
  deploy: /*          */ '-   y         y     y',
  'environment:write': /**/ '-   y         y     y',
  'variables:write': /**/ '-   y         y     y',
  ssh: /*             */ '-   y         y     y',
  'project:write': /* */ '-   -         y     y',
  'server:write': /*  */ '-   -         y     y',
  'member:write': /*  */ '-   -         y     y',
  'audit:read': /*    */ '-   -         y     y',
  'organization:write': /**/ '-   -         -     y',
}
/** Which scope each permission needs. */
const SCOPE: Record<Scope, Permission[]> = {
  read: ['read'],
  deploy: ['deploy'],
  write: ['environment:write', 'variables:write'],
  ssh: ['ssh'],
  admin: ['project:write', 'server:write', 'member:write', 'audit:read', 'organization:write'],
}

const inTable = (role: Role, permission: Permission): boolean =>
  TABLE[permission].split(/ +/)[ROLES.indexOf(role)] === 'y'

function caller(over: Partial<Caller> & { role?: Role } = {}): Caller {
  const { role = 'owner', ...rest } = over
  const membership = { organizationName: 'Acme', organizationSlug: 'acme', role }
  return {
    userId: 7,
    name: 'Ada',
    isPlatformAdmin: false,
    scopes: SCOPES,
    tokenOrganizationId: null,
    askedOrganizationId: null,
    memberships: [{ organizationId: 1, ...membership }],
    origin: { tokenId: 1, address: '127.0.0.1', requestId: 'r' },
    ...rest,
  }
}

const cells = ROLES.flatMap((role) => PERMISSIONS.map((permission) => ({ role, permission })))

test('the table has a cell for every role and permission', () => {
  expect(cells).toHaveLength(40)
  for (const row of Object.values(TABLE)) expect(row.split(/ +/)).toHaveLength(4)
  expect(cells.filter((c) => inTable(c.role, c.permission))).toHaveLength(1 + 5 + 9 + 10)
})

describe.each(cells)('$role, $permission', ({ role, permission }) => {
  const allowed = inTable(role, permission)

  test(`with every scope: ${allowed ? 'granted' : 'the role lacks it'}`, () => {
    const verdict = permit(caller({ role }), 1, permission)
    expect(verdict).toEqual(allowed ? { kind: 'granted' } : { kind: 'role_lacks', permission })
    expect(permissionsOf(role, SCOPES).includes(permission)).toBe(allowed)
  })

  test('with one scope each: granted by the right one alone', () => {
    for (const scope of SCOPES) {
      const right = SCOPE[scope].includes(permission)
      const { kind } = permit(caller({ role, scopes: [scope] }), 1, permission)
      expect(kind, scope).toBe(!allowed ? 'role_lacks' : right ? 'granted' : 'scope_lacks')
      expect(permissionsOf(role, [scope]).includes(permission), scope).toBe(allowed && right)
    }
  })

  test('elsewhere it does not exist, platform administrator or not', () => {
    for (const isPlatformAdmin of [false, true]) {
      expect(permit(caller({ role, isPlatformAdmin }), 2, permission)).toEqual({ kind: 'hidden' })
    }
  })
})

test('header and bound token narrow what counts, together', () => {
  const two = [1, 2].map((organizationId) => ({
    organizationId,
    organizationName: '',
    organizationSlug: '',
    role: 'owner' as const,
  }))
  const seen = (tokenOrganizationId: number | null, askedOrganizationId: number | null) =>
    effectiveMemberships(
      caller({ memberships: two, tokenOrganizationId, askedOrganizationId }),
    ).map((m) => m.organizationId)
  expect(seen(null, null)).toEqual([1, 2])
  expect(seen(null, 2)).toEqual([2])
  expect(seen(1, null)).toEqual([1])
  expect(seen(1, 2)).toEqual([])
  const asks = (asked: number, bound: number | null) =>
    mayAskOrganization(
      caller({ memberships: two, tokenOrganizationId: bound, askedOrganizationId: asked }),
    )
  expect([asks(1, null), asks(1, 1), asks(2, 1), asks(3, null)]).toEqual([true, true, false, false])
})

test('nobody’s role overrides protection', () => {
  for (const role of ROLES) {
    const other = caller({ role, isPlatformAdmin: true })
    expect(mayChangeProtected(other, { protected: true, ownerId: 8 }), role).toBe(false)
    expect(mayChangeProtected(other, { protected: true, ownerId: 7 }), role).toBe(true)
    expect(mayChangeProtected(other, { protected: false, ownerId: 8 }), role).toBe(true)
  }
})
