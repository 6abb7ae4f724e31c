// A page of the dashboard for tests: the real tRPC client over a real socket, keeping what it hears. Also people of
// other organizations, made where the product would make them.
import type { AppRouter } from '@berth/control-plane/router'
import { type Role, SCOPES } from '@berth/shared/rest'
import { createTRPCClient, createWSClient, httpLink, splitLink, wsLink } from '@trpc/client'
import { hashToken, makeToken } from '../control-plane/src/identity/tokens.ts'
import {
  insertMember,
  insertOrganization,
  insertToken,
  insertUser,
} from '../control-plane/src/store/people.ts'
import type { TestControlPlane } from './control-plane.ts'
import { until } from './lab.ts'

export interface Heard {
  id: string
  data: { kind: string; seq?: number; [field: string]: unknown }
}

export class Heardings {
  readonly messages: Heard[] = []
  error: { code: unknown; message: string } | undefined
  starts = 0
  stop = (): void => {}

  get kinds(): string[] {
    return this.messages.map((m) => m.data.kind)
  }

  async started(times = 1): Promise<void> {
    await until('the subscription to start', () => this.starts >= times || undefined)
  }

  hear(kind: string, count = 1): Promise<Heard[]> {
    return until(`${count} × ${kind}`, () => {
      if (this.error) throw new Error(`refused: ${this.error.message}`)
      const found = this.messages.filter((m) => m.data.kind === kind)
      return found.length >= count ? found : undefined
    })
  }

  refused(): Promise<{ code: unknown; message: string }> {
    return until('the end of the subscription', () => this.error)
  }
}

export function openViewer(
  cp: TestControlPlane,
  token: string,
  headers: Record<string, string> = {},
) {
  const ws = createWSClient({
    url: `${cp.url.replace('http', 'ws')}/trpc`,
    connectionParams: { token },
    retryDelayMs: () => 20,
  })
  const client = createTRPCClient<AppRouter>({
    links: [
      splitLink({
        condition: (op) => op.type === 'subscription',
        true: wsLink({ client: ws }),
        false: httpLink({
          url: `${cp.url}/trpc`,
          headers: { authorization: `Bearer ${token}`, ...headers },
        }),
      }),
    ],
  })
  /** Subscribes and keeps everything; `to` is one of the router's subscriptions. */
  function watch<I>(
    to: { subscribe(input: I, options: object): { unsubscribe(): void } },
    input: I,
  ): Heardings {
    const heard = new Heardings()
    const { unsubscribe } = to.subscribe(input, {
      onStarted: () => {
        heard.starts += 1
      },
      onData: (m: Heard) => heard.messages.push(m),
      onError: (error: { message: string; data?: { code?: unknown } }) => {
        heard.error = { code: error.data?.code, message: error.message }
      },
    })
    heard.stop = unsubscribe
    return heard
  }
  return { client, ws, watch, close: () => ws.close() }
}

/** Somebody with a token: of an organization of their own, or of a given one. */
export async function makePerson(
  cp: TestControlPlane,
  name: string,
  o: { organizationId?: number; role?: Role; email?: string } = {},
): Promise<{ userId: number; organizationId: number; token: string }> {
  const { db } = cp.running.ctx
  const createdAt = cp.running.ctx.clock.now()
  const email = o.email ?? `${name}@example.com`
  const userId = await insertUser(db, { name, email, createdAt })
  const organizationId =
    o.organizationId ?? (await insertOrganization(db, { name, slug: name, createdAt }))
  await insertMember(db, { organizationId, userId, role: o.role ?? 'owner', createdAt })
  const token = makeToken('berth_pat_')
  await insertToken(db, {
    userId,
    kind: 'personal',
    name: 'test',
    hash: hashToken(token),
    hint: token.slice(-4),
    scopes: [...SCOPES],
    createdAt,
  })
  return { userId, organizationId, token }
}
