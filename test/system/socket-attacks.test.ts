// A manual service whose account manipulates its socket's name, against a real Caddy under its own account. The names
// are swapped for links to sockets that Caddy may connect to: root's, and a neighbour's behind its password. In every
// case Caddy dials the environment's own socket or none.
import { chmodSync, lstatSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openEngine } from '../../agent/src/machine/docker/engine.ts'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { runProgram } from '../../agent/src/machine/process/programs.ts'
import { DriftWatch } from '../../agent/src/maintenance/drift.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { caddyAccount } from '../../agent/src/proxy/caddy/account.ts'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { readProxyProcess } from '../../agent/src/proxy/process-files.ts'
import type { SocketTarget } from '../../agent/src/proxy/protocol.ts'
import { readTable, routeId, writeTable } from '../../agent/src/proxy/table.ts'
import { missing } from '../fixtures/platform/components.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { ProxyHost, Visitor } from '../fixtures/server/proxy-server.ts'
import { isRoot } from '../fixtures/server/server.ts'

const HOSTILE = 1
const NEIGHBOUR = 2
const HOST = 'hostile.shop.example.com'
const NEIGHBOUR_HOST = 'neighbour.shop.example.com'
/** Of hunter2, cost 4. */
const BCRYPT = '$2b$04$0xo3EaAXXiikt632rhWKUuTWXwdjCtADGLSPm/IRp3h4IOFYlmDWm'

/** Closed to its group, but the proxy gets access after each start. Each request opens a connection. */
const WEB = `import { createServer } from 'node:http'
process.umask(0o077)
createServer((request, response) => {
  response.setHeader('connection', 'close').end(process.env.SAYS)
  if (request.url === '/exit') setTimeout(() => process.exit(3), 20)
}).listen(process.env.BERTH_SOCKET_DIR + '/app.sock')
`

/** Another process of the same account, which swaps the name of the socket on request. */
const HAND = `import { createServer } from 'node:http'
import { linkSync, renameSync, rmSync, symlinkSync } from 'node:fs'
const at = (name) => process.env.BERTH_SOCKET_DIR + '/' + name
const put = (make) => { rmSync(at('new'), { force: true }); make(at('new')); renameSync(at('new'), at('app.sock')) }
const keep = () => { rmSync(at('kept'), { force: true }); linkSync(at('app.sock'), at('kept')) }
const link = (to) => put((name) => symlinkSync(to, name))
const restore = () => put((name) => linkSync(at('kept'), name))
let flips = 0
let isFlipping = false
const flip = (to) => {
  for (let n = 0; n < 50; n += 1) { link(to); restore(); flips += 1 }
  if (isFlipping) setTimeout(() => flip(to), 1)
}
const second = createServer((request, response) => response.setHeader('connection', 'close').end('second'))
createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://hand')
  const to = searchParams.get('to')
  if (pathname === '/hand/link') { keep(); link(to) }
  if (pathname === '/hand/restore') restore()
  if (pathname === '/hand/flip') { keep(); isFlipping = true; flip(to) }
  if (pathname === '/hand/still') isFlipping = false
  if (pathname === '/hand/rename') { keep(); second.listen(at('second'), () => renameSync(at('second'), at('app.sock'))) }
  response.end('done ' + flips)
}).listen(process.env.PORT)
`

describe.skipIf(missing('caddy') || !isRoot)('a socket whose name is swapped', () => {
  let host: ProxyHost
  let engine: Server
  let engineSocket: string
  let neighbourSocket: string

  beforeAll(async () => {
    host = new ProxyHost()
    await host.startProxy()
    engineSocket = join(host.folder, 'engine.sock')
    engine = createServer((_request, answer) => answer.end('ENGINE'))
    await new Promise<void>((resolve) => engine.listen(engineSocket, resolve))
    chmodSync(engineSocket, 0o666) // Caddy's account may connect: only the dialled name prevents it
    neighbourSocket = join(environmentPaths(host.settings, NEIGHBOUR).sockets, 'app.sock')
    const yaml = (says: string, more: string): string => `manual:
  deploy: [echo x]
  services:
    web: { socket: app.sock, run: exec ${host.node} web.mjs, env: { SAYS: ${says} }, health: / }
${more}`
    const hand = `    hand: { port: auto, path: /hand, run: exec ${host.node} hand.mjs, health: /hand/up }\n`
    const hostile = host.repository('hostile')
    hostile.commit({ 'web.mjs': WEB, 'hand.mjs': HAND, '.service.yml': yaml('own', hand) })
    const neighbour = host.repository('neighbour')
    neighbour.commit({ 'web.mjs': WEB, '.service.yml': yaml('NEIGHBOUR', '') })
    const basicAuth = { username: 'ada', bcryptHash: BCRYPT }
    const done = await Promise.all([
      host.deploy(hostile, { environmentId: HOSTILE, host: HOST }),
      host.deploy(neighbour, { environmentId: NEIGHBOUR, host: NEIGHBOUR_HOST, basicAuth }),
    ])
    for (const deployment of done) {
      const { message, state } = await deployment.verdict()
      expect([message, state], deployment.log()).toEqual(['', AttemptState.SUCCEEDED])
    }
  })
  afterAll(async () => {
    await host.close()
    engine.close()
  })

  /** What Caddy's account reads at that path. */
  const asCaddy = async (path: string): Promise<string> => {
    const name = caddyAccount(host.settings)
    const ask = `require('http').get({ socketPath: ${JSON.stringify(path)} }, (a) => a.pipe(process.stdout))`
    const words = ['--reuid', name, '--regid', name, '--init-groups', '--', host.node, '-e', ask]
    const { stdout } = await runProgram(['setpriv', ...words])
    return stdout.toString()
  }
  const link = (): string => join(edgePaths(host.settings).sockets, routeId(HOST, '/'))
  const target = (path: string): SocketTarget => ({ kind: 'socket', path, uid: 54_321 })
  const isDialled = (): boolean => lstatSync(link(), { throwIfNoEntry: false }) !== undefined
  const hand = async (act: string, to = ''): Promise<string> => {
    const { status, text } = await host.get(HOST, `/hand/${act}?to=${encodeURIComponent(to)}`)
    expect([status, text]).toEqual([200, expect.stringMatching(/^done/)])
    return text
  }
  const answers = (text: string): Promise<unknown> =>
    eventually(async () => (await host.get(HOST)).text === text, text)
  /** Foreign answers that visitors see during `act`, until the service has no answer. */
  const seenDuring = async (act: () => unknown): Promise<string[]> => {
    const visitor = new Visitor(host, HOST)
    await act()
    const answer = await eventually(async () => {
      const found = await host.get(HOST)
      return found.text !== 'own' && found
    }, 'another answer')
    expect(answer).toMatchObject({ status: 502, text: expect.stringContaining('No answer') })
    return foreign(await visitor.stop())
  }
  const foreign = (seen: string[]): string[] => seen.filter((said) => !HELD.includes(said))
  /** As the control plane receives it. */
  const degraded = async (): Promise<string | undefined> => {
    const { settings } = host
    const observations = new Observations()
    const engine = openEngine(settings)
    const ledger = host.ledger()
    const watch = new DriftWatch({ settings, engine, observations, now: () => Date.now() })
    await watch.look(ledger, HOSTILE)
    ledger.close()
    return observations.find(HOSTILE)?.degradedReason
  }
  const HELD = ['own', 'status 502']

  it('positive control: it answers, and Caddy may connect to what it is to be led to', async () => {
    expect(await host.get(HOST)).toMatchObject({ status: 200, text: 'own' })
    expect((await host.get(NEIGHBOUR_HOST)).status).toBe(401)
    expect(await asCaddy(engineSocket)).toBe('ENGINE')
    expect(await asCaddy(neighbourSocket)).toBe('NEIGHBOUR')
  })

  it('names are in a folder of root’s, for Caddy alone', () => {
    const folder = lstatSync(edgePaths(host.settings).sockets)
    const socket = lstatSync(link())
    expect([folder.uid, folder.mode & 0o7777, folder.gid]).toEqual([0, 0o710, socket.gid])
    expect(socket.isSocket()).toBe(true)
    expect(socket.mode & 0o777).toBe(0o760)
  })

  it.each([
    ['root’s socket', () => engineSocket],
    ['a neighbour’s socket', () => neighbourSocket],
  ])('a link to %s is not followed', async (_what, to) => {
    expect(await seenDuring(() => hand('link', to()))).toEqual([])
    expect(await degraded()).toContain('app.sock (service web) is not a socket of this environment')
    await hand('restore')
    expect(await degraded()).toBe('')
    await answers('own')
    const visitor = new Visitor(host, HOST)
    await hand('flip', to())
    await eventually(async () => Number((await hand('up')).slice(5)) > 500, 'some hundred swaps')
    await hand('still')
    await answers('own')
    expect(foreign(await visitor.stop())).toEqual([])
  })

  it('a socket of another account under its name is not dialled', async () => {
    const mine = join(environmentPaths(host.settings, HOSTILE).sockets, 'app.sock')
    const other = join(host.settings.runDir, 'other.sock')
    const server = createServer((_request, answer) => answer.end('ENGINE'))
    await new Promise<void>((resolve) => server.listen(other, resolve))
    chmodSync(other, 0o666)
    await hand('link', '/nonexistent') // its previous socket is kept
    expect(await seenDuring(() => renameSync(other, mine))).toEqual([])
    expect(await asCaddy(mine)).toBe('ENGINE')
    expect(await degraded()).toContain('app.sock (service web) is not a socket of this environment')
    await hand('restore')
    await answers('own')
    server.close()
  })

  it('another socket of its own takes the name over', async () => {
    await hand('rename')
    await answers('second')
    await hand('restore')
    await answers('own')
  })

  it('a program that starts again is dialled again', async () => {
    const before = lstatSync(link()).ino
    expect((await host.get(HOST, '/exit')).text).toBe('own')
    await eventually(() => isDialled() && lstatSync(link()).ino !== before, 'another socket')
    await answers('own')
    expect(lstatSync(link()).mode & 0o777).toBe(0o760)
  })

  it('a way that leads in a circle does not keep others from being dialled', async () => {
    const { settings, edge } = host
    const { sockets } = environmentPaths(settings, HOSTILE)
    symlinkSync('circle', join(sockets, 'circle'))
    const path = join(sockets, 'circle', 'app.sock')
    const routes = [
      { service: 'x', host: 'a.circle.example.com', path: '/', auth: true, target: target(path) },
    ]
    await edge.setRoutes({ environmentId: 3, fence: 1_000n, routes })
    const before = lstatSync(link()).ino
    await host.get(HOST, '/exit')
    await eventually(() => isDialled() && lstatSync(link()).ino !== before, 'another socket')
    await answers('own')
    await edge.removeRoutes({ environmentId: 3, fence: 1_000n })
  })

  it('a table of a former version says nothing of accounts, and leads nowhere else', async () => {
    const { settings } = host
    process.kill(readProxyProcess(edgePaths(settings).edgeProcess)?.pid ?? 0, 'SIGKILL')
    const table = readTable(settings)
    const sockets = Object.values(table.environments)
      .flatMap(({ routes }) => routes)
      .map(({ target }) => target)
      .filter((target): target is SocketTarget => target.kind === 'socket')
    expect(sockets.map(({ uid }) => uid)).toEqual([expect.any(Number), expect.any(Number)])
    for (const target of sockets) delete target.uid
    writeTable(settings, table)
    rmSync(edgePaths(settings).sockets, { recursive: true }) // as after a reboot
    await host.startProxy()
    await answers('own')
    expect(await seenDuring(() => hand('link', engineSocket))).toEqual([])
    await hand('restore')
    await answers('own')
  })
})
