// The order of changes, with a Caddy that the test simulates.
import { describe, expect, it } from 'vitest'
import type { Pushes } from '../caddy/pushes.ts'
import { ownName } from '../caddy/render.ts'
import { EdgeError, type EdgeRoute } from '../protocol.ts'
import { readTable, type Table, withAuth, withoutRoutes, withRoutes } from '../table.ts'
import { Addresses } from './addresses.ts'
import { containersOf } from './resolution.ts'
import { RouteSwitcher } from './route-switcher.ts'

const empty = readTable({ stateDir: '/nonexistent', runDir: '/nonexistent' })
const page = { address: '127.0.0.1', port: 1_000 }
const BAD = '/bad'

/** In these tests, paths represent everything that needs a push. */
const shape = (table: Table): string =>
  Object.values(table.environments)
    .flatMap(({ routes, basicAuth }) => [basicAuth ? 'auth' : '', ...routes.map((r) => r.path)])
    .filter((path) => path !== '/' && path !== '')
    .sort()
    .join(' ')

function open() {
  const committed: Table[] = []
  const pushed: string[] = []
  const gates: (() => void)[] = []
  let isAway = false
  const pushes = {
    turn: () => Promise.resolve(),
    ready: () => Promise.resolve(),
    async push(configuration: string) {
      pushed.push(configuration)
      await new Promise<void>((resolve) => gates.push(resolve))
      if (isAway) throw new EdgeError('unavailable', 'away')
      if (configuration.includes(BAD)) throw new EdgeError('refused', `refused: ${configuration}`)
    },
  } as unknown as Pushes
  const book = { addressOf: () => Promise.resolve('10.0.0.9'), onChange: () => () => undefined }
  const board: RouteSwitcher = new RouteSwitcher({
    table: empty,
    addresses: new Addresses(
      book,
      (): string[] => containersOf(board.table),
      () => undefined,
    ),
    pushes,
    render: shape,
    prepare: () => undefined,
    commit: (table) => committed.push(table),
    pageAt: () => page,
  })
  /** Lets the waiting push continue, with its effects. */
  const next = async (): Promise<void> => {
    await turns()
    gates.shift()?.()
    await turns()
  }
  const leave = (): void => {
    isAway = true
  }
  return { board, committed, pushed, next, leave }
}
const turns = async (): Promise<void> => {
  for (let i = 0; i < 20; i += 1) await Promise.resolve()
}
const route = (host: string, path: string, port: number): EdgeRoute => ({
  service: 'web',
  host,
  path,
  auth: true,
  target: { kind: 'loopback', port },
})
const set = (id: number, fence: bigint, path: string, port = 80) => {
  const routes = [route(`h${id}`, path, port)]
  return (table: Table): Table => withRoutes(table, { environmentId: id, fence, routes })
}
const settled = (promise: Promise<unknown>) =>
  promise.then(
    () => 'done',
    (error: Error) => error.message,
  )

describe('changes', () => {
  it('that need no push happen at once, on disk first', async () => {
    const { board, committed, pushed } = open()
    await board.change(1, set(1, 1n, '/'), true)
    expect(committed).toHaveLength(1)
    expect(pushed).toEqual([])
    expect(board.find('h1.berth.internal')).toEqual([{ address: '127.0.0.1', port: 80 }])
    expect(board.find('h2.berth.internal')).toEqual([page])
    expect(board.find('h1.example')).toBeUndefined()
  })

  it('forget no container that another one is about to lead to', async () => {
    const { board, next } = open()
    const target = { kind: 'container', id: 'c1', port: 80 } as const
    const routes = { environmentId: 1, fence: 1n, routes: [{ ...route('h1', '/a', 80), target }] }
    const first = board.withContainers(routes, () =>
      board.change(1, (table) => withRoutes(table, routes), true),
    )
    await turns()
    await board.change(2, set(2, 1n, '/'), true)
    await next()
    await first
    await board.change(2, set(2, 2n, '/'), true)
    expect(board.find(ownName('h1', '/a'))).toEqual([{ address: '10.0.0.9', port: 80 }])
  })

  it('of one moment travel together, and plain ones pass them', async () => {
    const { board, pushed, next } = open()
    const first = settled(board.change(1, set(1, 1n, '/a'), true))
    await turns()
    const others = [2, 3].map((id) => settled(board.change(id, set(id, 1n, '/b'), true)))
    await board.change(4, set(4, 1n, '/'), true)
    expect(board.table.environments[1]).toBeUndefined()
    await next()
    expect(await first).toBe('done')
    await next()
    expect(await Promise.all(others)).toEqual(['done', 'done'])
    expect(pushed).toEqual(['/a', '/a /b /b'])
    expect(Object.keys(board.table.environments)).toEqual(['1', '2', '3', '4'])
  })

  it('that Caddy refuses change nothing and take no other with them', async () => {
    const { board, committed, next } = open()
    const warm = settled(board.change(9, set(9, 1n, '/warm'), true))
    await turns()
    const bad = settled(board.change(1, set(1, 1n, BAD), true))
    const good = settled(board.change(2, set(2, 1n, '/good'), true))
    for (let i = 0; i < 4; i += 1) await next()
    expect(await warm).toBe('done')
    expect(await bad).toContain('refused: /bad')
    expect(await good).toBe('done')
    expect(board.table.environments[1]).toBeUndefined()
    expect(committed).toHaveLength(2)
  })

  it('of one environment keep their order; the late and old one is stale', async () => {
    const { board, next } = open()
    const slow = settled(board.change(1, set(1, 2n, '/a'), true))
    const plain = settled(board.change(1, set(1, 3n, '/', 81), true))
    const old = settled(board.change(1, set(1, 1n, '/', 82), true))
    await next()
    await next()
    expect(await slow).toBe('done')
    expect(await plain).toBe('done')
    expect(await old).toContain('comes too late')
    expect(board.table.environments[1]?.fence).toBe('3')
  })

  it('without Caddy: a removal and a password happen, routes do not', async () => {
    const { board, next, leave } = open()
    const made = board.change(1, set(1, 1n, '/a'), true)
    await next()
    await made
    leave()
    const basicAuth = { username: 'a', passwordHash: 'x' }
    const protect = (t: Table) => withAuth(t, { environmentId: 2, revision: 1n, basicAuth })
    const guard = settled(board.change(2, protect, false))
    await next()
    const remove = (t: Table) => withoutRoutes(t, { environmentId: 1, fence: 2n })
    const removed = settled(board.change(1, remove, false))
    await next()
    const routed = settled(board.change(3, set(3, 1n, '/c'), true))
    await next()
    expect([await guard, await removed, await routed]).toEqual(['done', 'done', 'away'])
    expect(board.table.environments[1]?.routes).toEqual([])
    expect(board.table.environments[3]).toBeUndefined()
  })

  it('a name of a table that is being pushed is answered already', async () => {
    const { board, next } = open()
    const change = board.change(1, set(1, 1n, '/'), true)
    await change
    const slow = settled(board.change(2, set(2, 1n, '/a'), true))
    await turns()
    const own = [...(await import('./resolution.ts')).listNames(set(2, 1n, '/a')(empty)).keys()]
    expect(board.find(own[0] ?? '')).toEqual([{ address: '127.0.0.1', port: 80 }])
    await next()
    await slow
  })
})
