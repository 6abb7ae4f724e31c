// People of every role, in one or two organizations, for tests of access: made in the database, speaking over HTTP.
import { type Role, SCOPES, type Scope } from '@berth/shared/rest'
import type { Caller } from '../control-plane/src/domain/access.ts'
import { authenticate } from '../control-plane/src/identity/callers.ts'
import { hashToken, makeToken } from '../control-plane/src/identity/tokens.ts'
import {
  insertMember,
  insertOrganization,
  insertToken,
  insertUser,
} from '../control-plane/src/store/people.ts'
import type { Answer, TestControlPlane } from './control-plane.ts'

let counter = 0

export interface Member {
  id: number
  name: string
  token: string
  call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Answer<T>>
  caller(): Promise<Caller>
}

export const makeOrganization = (cp: TestControlPlane, name: string): Promise<number> =>
  insertOrganization(cp.running.ctx.db, { name, slug: name.toLowerCase(), createdAt: 1 })

export async function makeMember(
  cp: TestControlPlane,
  organizationId: number,
  role: Role,
  scopes: readonly Scope[] = SCOPES,
): Promise<Member> {
  counter += 1
  const { db } = cp.running.ctx
  const name = `${role} ${counter}`
  const email = `person${counter}@example.com`
  const id = await insertUser(db, { name, email, createdAt: 1 })
  await insertMember(db, { organizationId, userId: id, role, createdAt: 1 })
  const token = makeToken('berth_pat_')
  await insertToken(db, {
    userId: id,
    kind: 'personal',
    name: 'test',
    hash: hashToken(token),
    hint: token.slice(-4),
    scopes: [...scopes],
    organizationId: null,
    expiresAt: null,
    createdAt: 1,
  })
  const authorization = `Bearer ${token}`
  return {
    id,
    name,
    token,
    call: (method, path, body) => cp.call(method, path, body, { authorization }),
    caller: async () => {
      const from = { address: '127.0.0.1', requestId: 'test' }
      return (await authenticate(cp.running.ctx, authorization, from)).caller
    },
  }
}
