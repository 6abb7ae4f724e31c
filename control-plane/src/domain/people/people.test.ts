import { ROLES } from '@berth/shared/api'
import { describe, expect, test } from 'vitest'
import { decideMemberChange, normalizeEmail, parseScopes, tooWide } from './people.ts'

const rank = (role: string) => ['viewer', 'developer', 'admin', 'owner'].indexOf(role)
const cases = ROLES.flatMap((callerRole) =>
  ROLES.flatMap((targetRole) =>
    [...ROLES, null].flatMap((newRole) =>
      [1, 2].flatMap((owners) =>
        [false, true].map((isSelf) => ({ callerRole, targetRole, newRole, owners, isSelf })),
      ),
    ),
  ),
).filter((c) => !c.isSelf || c.callerRole === c.targetRole)

describe('changing a member', () => {
  test('nobody reaches above themselves, and one owner stays, in every case there is', () => {
    expect(cases.length).toBeGreaterThan(190)
    for (const { newRole, ...facts } of cases) {
      const verdict = decideMemberChange(facts, newRole)
      const what = JSON.stringify({ ...facts, newRole })
      const reaches =
        (!facts.isSelf && rank(facts.targetRole) > rank(facts.callerRole)) ||
        (newRole !== null && rank(newRole) > rank(facts.callerRole))
      const loses = facts.targetRole === 'owner' && newRole !== 'owner' && facts.owners === 1
      expect(verdict, what).toBe(reaches ? 'role_too_high' : loses ? 'last_owner' : 'allowed')
    }
  })

  test('anybody may leave, but the last owner', () => {
    const leave = (role: (typeof ROLES)[number], owners: number) =>
      decideMemberChange({ callerRole: role, targetRole: role, owners, isSelf: true }, null)
    expect(ROLES.map((role) => leave(role, 2))).toEqual(Array(4).fill('allowed'))
    expect(leave('owner', 1)).toBe('last_owner')
  })
})

test('scopes are read in any order and refused when one is unknown', () => {
  expect(parseScopes('ssh  read read')).toEqual(['read', 'ssh'])
  expect(parseScopes('')).toEqual([])
  for (const bad of ['root', 'read,deploy', 'READ', 'read\tdeploy', 'read __proto__']) {
    expect(parseScopes(bad), bad).toBeUndefined()
  }
  expect(tooWide(['read', 'admin'], ['read', 'deploy'])).toEqual(['admin'])
})

test('an address has one spelling', () => {
  expect(normalizeEmail('  Ada@Example.COM ')).toBe('ada@example.com')
})
