// Three organizations alike, each with a person of every role and one of each thing that belongs to an organization; a
// platform administrator who is a member of none. What the matrix of tenants walks over.
//
// A new kind of thing: add its id to `Ids` and a line to `furnish`.
import { randomUUID } from 'node:crypto'
import { ROLES, type Role, SCOPES } from '@berth/shared/rest'
import { hashToken, makeToken } from '../../control-plane/src/identity/tokens.ts'
import {
  insertMember,
  insertOrganization,
  insertToken,
  insertUser,
} from '../../control-plane/src/store/people.ts'
import { type Answer, TestControlPlane } from '../control-plane.ts'
import type { EngineName } from '../engines.ts'

/** One of each; what it is called in the paths and bodies of rows. */
export interface Ids {
  organization: number
  server: number
  project: number
  environment: number
  task: number
  artifact: number
  /** An environment without a task. */
  free: number
  delivery: number
  /** Somebody who is a member there. */
  user: number
}

/** No organization has these. */
export const MISSING: Ids = {
  organization: 2_000_000_001,
  server: 2_000_000_002,
  project: 2_000_000_003,
  environment: 2_000_000_004,
  task: 2_000_000_005,
  artifact: 2_000_000_007,
  free: 2_000_000_006,
  delivery: 2_000_000_008,
  user: 2_000_000_009,
}

export interface Organization extends Ids {
  name: string
  tokens: Record<Role, string>
  users: Record<Role, number>
  /** A call by the organization's owner, for rows that need a fresh thing each time. */
  make<T = { id: number }>(path: string, body?: unknown): Promise<T>
}

export class World {
  readonly cp: TestControlPlane
  readonly organizations: Organization[] = []
  /** A platform administrator without a membership. */
  admin = ''
  /** The token of a joining agent: a machine, no person. */
  machine = ''
  #numbers = 0

  private constructor(cp: TestControlPlane) {
    this.cp = cp
  }

  static async build(engine: EngineName): Promise<World> {
    // every call may come from an address of its own: no limit by address gets in the way
    const cp = await TestControlPlane.start(engine, { config: { trustedProxies: ['127.0.0.1'] } })
    await cp.setUp()
    cp.token = ''
    const world = new World(cp)
    world.admin = (await world.#person('root', { isPlatformAdmin: 1 })).token
    for (const name of ['north', 'east', 'south']) await world.#found(name)
    const [first] = world.organizations as [Organization]
    const join = await first.make<{ token: string }>(`/api/servers/${first.server}/join_token`, {
      rejoin: true,
    })
    world.machine = join.token
    return world
  }

  /** For names that must be new. */
  next(): number {
    this.#numbers += 1
    return this.#numbers
  }

  /** An address nobody used before. */
  address(): string {
    const n = this.next()
    return `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`
  }

  call(token: string, method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
    return this.cp.call(method, path, body, {
      authorization: token && `Bearer ${token}`,
      'x-forwarded-for': this.address(),
      ...headers,
    })
  }

  async #person(
    name: string,
    over: { isPlatformAdmin?: 1 } = {},
  ): Promise<{ id: number; token: string }> {
    const { db } = this.cp.running.ctx
    const email = `${name}@example.com`
    const id = await insertUser(db, { name, email, createdAt: 1, ...over })
    const token = makeToken('berth_pat_')
    await insertToken(db, {
      userId: id,
      kind: 'personal',
      name,
      hash: hashToken(token),
      hint: token.slice(-4),
      scopes: [...SCOPES],
      organizationId: null,
      expiresAt: null,
      createdAt: 1,
    })
    return { id, token }
  }

  async #found(name: string): Promise<void> {
    const { db } = this.cp.running.ctx
    const organizationId = await insertOrganization(db, { name, slug: name, createdAt: 1 })
    const tokens = {} as Record<Role, string>
    const users = {} as Record<Role, number>
    for (const role of ROLES) {
      const person = await this.#person(`${name}-${role}`)
      await insertMember(db, { organizationId, userId: person.id, role, createdAt: 1 })
      tokens[role] = person.token
      users[role] = person.id
    }
    const make = async <T>(path: string, body?: unknown): Promise<T> => {
      const answer = await this.call(tokens.owner, 'POST', path, body)
      if (answer.status >= 300) throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
      return answer.body as T
    }
    const things = await this.#furnish(name, organizationId, make)
    const user = users.owner
    const whole = { name, organization: organizationId, tokens, users, user, make, ...things }
    this.organizations.push(whole)
  }

  async #pullRequest(organizationId: number, projectId: number): Promise<void> {
    await this.cp.running.ctx.db
      .insertInto('pullRequests')
      .values({
        organizationId,
        projectId,
        number: 7,
        title: 'Seven',
        url: 'https://git.example.com/shop/pulls/7',
        author: 'ada',
        state: 'open',
        draft: 0,
        headBranch: 'seven',
        baseBranch: 'main',
        fromFork: 0,
        headSha: 'a'.repeat(40),
        happenedAt: 1,
        createdAt: 1,
        updatedAt: 1,
      })
      .execute()
  }

  async #artifact(serverId: number, taskId: number): Promise<number> {
    const { db, clock } = this.cp.running.ctx
    const now = clock.now()
    const { id } = await db
      .insertInto('artifacts')
      .values({
        fileId: randomUUID(),
        taskId,
        serverId,
        path: 'exports/orders.csv',
        sizeBytes: 7,
        sha256: '0'.repeat(64),
        collectedAt: now,
        expiresAt: now + 86_400_000,
      })
      .returning('id')
      .executeTakeFirstOrThrow()
    return id
  }

  async #furnish(
    name: string,
    organizationId: number,
    make: <T = { id: number }>(path: string, body?: unknown) => Promise<T>,
  ): Promise<Omit<Ids, 'organization' | 'user'>> {
    const { db, clock } = this.cp.running.ctx
    const { id: server } = await make('/api/servers', { name: 'one', hostname: 'h' })
    const agent = { id: `agent-${name}`, serverId: server, installId: 'i', joinedAt: 1 }
    await db.insertInto('agents').values(agent).execute()
    const { id: project } = await make('/api/projects', {
      name: 'shop',
      repo_url: 'http://127.0.0.1:9/shop.git', // nobody answers there, and says so at once
      domain: `${name}.example.com`,
      server_ids: [server],
    })
    const path = `/api/projects/${project}/environments`
    const { id: environment } = await make(path, { identifier: 'main', branch: 'main' })
    const { id: task } = await make(`/api/environments/${environment}/tasks`)
    const { id: free } = await make(path, { identifier: 'free', branch: 'main' })
    const receivedAt = clock.now() // an old one would be swept away in the middle of a matrix
    const seen = { organizationId, projectId: project, provider: 'github', receivedAt }
    const told = { event: 'push', signedWith: 'current' as const, outcome: 'ignored' }
    const { id: delivery } = await db
      .insertInto('deliveries')
      .values({
        ...seen,
        ...told,
        deliveryId: name,
        decidedAt: receivedAt,
        responseStatus: 202,
        headers: '{}',
        bodySha256: '0'.repeat(64),
        bodyBytes: 0,
      })
      .returning('id')
      .executeTakeFirstOrThrow()
    await this.#pullRequest(organizationId, project)
    const artifact = await this.#artifact(server, task)
    return { server, project, environment, task, artifact, free, delivery }
  }
}
