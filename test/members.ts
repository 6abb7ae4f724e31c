// More people for specifications: members of an organization with a role and a token, straight into the tables, because
// how they came in is another specification's matter.
import { type Role, SCOPES, type Scope } from '@berth/shared/rest'
import { hashToken, makeToken } from '../control-plane/src/identity/tokens.ts'
import {
  insertMember,
  insertOrganization,
  insertToken,
  insertUser,
} from '../control-plane/src/store/people.ts'
import type { Answer, TestControlPlane } from './control-plane.ts'

export interface Person {
  id: number
  token: string
  call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer<T>>
}

export async function addOrganization(cp: TestControlPlane, slug: string): Promise<number> {
  const { db, clock } = cp.running.ctx
  return insertOrganization(db, { name: slug, slug, createdAt: clock.now() })
}

export async function addMember(
  cp: TestControlPlane,
  name: string,
  role: Role,
  o: { organizationId?: number; scopes?: readonly Scope[]; isPlatformAdmin?: boolean } = {},
): Promise<Person> {
  const { db, clock } = cp.running.ctx
  const createdAt = clock.now()
  const email = `${name.toLowerCase()}@example.com`
  const isPlatformAdmin = o.isPlatformAdmin ? 1 : 0
  const id = await insertUser(db, { name, email, isPlatformAdmin, createdAt })
  await insertMember(db, { organizationId: o.organizationId ?? 1, userId: id, role, createdAt })
  const token = makeToken('berth_pat_')
  await insertToken(db, {
    userId: id,
    kind: 'personal',
    name: 'test',
    hash: hashToken(token),
    hint: token.slice(-4),
    scopes: [...(o.scopes ?? SCOPES)],
    organizationId: null,
    expiresAt: createdAt + 86_400_000,
    createdAt,
  })
  const authorization = `Bearer ${token}`
  return {
    id,
    token,
    call: (method, path, body, headers) =>
      cp.call(method, path, body, { authorization, ...headers }),
  }
}
