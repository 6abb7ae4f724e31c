// The manual recipe behind the real proxy, with three environments of one server: a Node.js program on an automatic
// port, a site of files, a program on a Unix socket. Deployed, replaced under strict visitors, broken in every routed
// way, removed without a trace. Caddy runs under its own account, so it can read only what it can read in production.
import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PROXY } from '../../agent/src/limits/proxy.ts'
import { allPaths, environmentPaths, readLink } from '../../agent/src/machine/files.ts'
import { hasMarker, listProcesses } from '../../agent/src/machine/process/processes.ts'
import { webGroup } from '../../agent/src/proxy/caddy/web-group.ts'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { findAdminSocket } from '../../agent/src/proxy/process-files.ts'
import { readTable } from '../../agent/src/proxy/table.ts'
import { missing } from '../fixtures/platform/components.ts'
import {
  type Deployment,
  eventually,
  type Files,
  type Repository,
} from '../fixtures/server/deployment.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { ProxyHost, Visitor } from '../fixtures/server/proxy-server.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

const NODE = 1 as const
const SITE = 2 as const
const SOCKET = 3 as const
const HOSTS = {
  [NODE]: 'app.shop.example.com',
  [SITE]: 'site.shop.example.com',
  [SOCKET]: 'sock.shop.example.com',
}
type Id = keyof typeof HOSTS
const ALL: Id[] = [NODE, SITE, SOCKET]

/** Of hunter2, cost 4. */
const BCRYPT = '$2b$04$0xo3EaAXXiikt632rhWKUuTWXwdjCtADGLSPm/IRp3h4IOFYlmDWm'

const SERVER = `import { createServer } from 'node:http'
const { VERSION, MODE, PORT, BERTH_SOCKET_DIR } = process.env
const server = createServer((request, response) => {
  if (request.url === '/up' && MODE === 'sick') response.statusCode = 500
  if (request.url === '/proxied' && MODE === 'late') response.statusCode = request.headers['x-forwarded-for'] ? 500 : 200
  response.end(VERSION)
})
server.listen(PORT || BERTH_SOCKET_DIR + '/app.sock')
process.on('SIGTERM', () => { server.close(() => process.exit(0)); server.closeIdleConnections() })
`

let host: ProxyHost
const repositories = {} as Record<Id, Repository>

const run = (version: string, more: string): string => `manual:
  deploy: [echo ${version}]
  services:
    web:
      run: exec ${host.node} server.mjs
      env: { VERSION: ${version} }
      stop_timeout: 5s
${more
  .split('\n')
  .map((line) => `      ${line}`)
  .join('\n')}
`

const FILES: Record<Id, (version: string) => Files> = {
  [NODE]: (version) => ({
    'server.mjs': SERVER,
    '.service.yml': run(version, 'port: auto\nhealth: /up'),
  }),
  [SITE]: (version) => ({
    'public/index.html': version,
    'public/deep/er/page.html': `deep ${version}`,
    'public/.env': 'SECRET=1',
    'public/outside.txt': { link: '/etc/passwd' },
    'public/etc': { link: '/etc' },
    '.service.yml':
      'manual: { deploy: [mkfifo public/pipe], services: { web: { root: public } } }\n',
  }),
  [SOCKET]: (version) => ({
    'server.mjs': SERVER,
    '.service.yml': run(version, 'socket: app.sock\nhealth: /up'),
  }),
}

const deploy = (id: Id, more: DeployRequest = {}): Promise<Deployment> =>
  host.deploy(repositories[id], { environmentId: id, host: HOSTS[id], ...more })

async function succeed(id: Id, version: string): Promise<Deployment> {
  repositories[id].commit(FILES[id](version), version)
  const deployment = await deploy(id)
  const { message, state } = await deployment.verdict()
  expect([message, state], deployment.log()).toEqual(['', AttemptState.SUCCEEDED])
  return deployment
}

async function fail(id: Id, files: Files, more: DeployRequest = {}) {
  repositories[id].commit(files)
  const deployment = await deploy(id, more)
  return { deployment, verdict: await deployment.verdict() }
}

const text = async (id: Id, path = '/'): Promise<string> => (await host.get(HOSTS[id], path)).text

describe.skipIf(missing('caddy'))('manual services behind the proxy', () => {
  beforeAll(async () => {
    host = new ProxyHost()
    await host.startProxy()
    for (const id of ALL) repositories[id] = host.repository(`r${id}`)
  })
  afterAll(() => host.close())

  describe('three environments of one server', () => {
    const first = {} as Record<Id, Deployment>

    it('answer at their hosts, and tell where', async () => {
      const done = await Promise.all(ALL.map((id) => succeed(id, `one-${id}`)))
      for (const [index, id] of ALL.entries()) {
        first[id] = done[index] as Deployment
        expect(await text(id)).toBe(`one-${id}`)
        const url = `http://${HOSTS[id]}:${host.settings.proxy.http.port}/`
        const [services] = first[id].bodies('services')
        expect(services?.services).toMatchObject([{ name: 'web', hosts: [HOSTS[id]], url }])
        const ids = Object.keys(first[id].steps())
        expect(ids.indexOf('switch')).toBeGreaterThan(ids.indexOf('activate'))
      }
    })

    it('a socket belongs to the group of the proxy, a copy of files to root', () => {
      const { sockets } = environmentPaths(host.settings, SOCKET)
      const { statics } = environmentPaths(host.settings, SITE)
      const copy = join(statics, 'web', String(first[SITE].taskId))
      expect(readdirSync(copy).sort()).toEqual(['deep', 'index.html'])
      expect(first[SITE].log()).toMatch(/2 files .* were copied/)
      expect(first[SITE].log()).toContain('4 hidden files, links and others')
      if (!isRoot) return
      const group = Number(
        spawnSync('getent', ['group', webGroup(host.settings)], { encoding: 'utf8' }).stdout.split(
          ':',
        )[2],
      )
      expect(lstatSync(join(sockets, 'app.sock')).gid).toBe(group)
      expect(lstatSync(join(sockets, 'app.sock')).mode & 0o777).toBe(0o770)
      expect([statSync(statics).uid, statSync(statics).gid]).toEqual([0, group])
      expect(statSync(statics).mode & 0o777).toBe(0o750)
      expect(statSync(join(copy, 'index.html')).uid).toBe(0)
    })

    it('show no file that the repository hides or links to', async () => {
      for (const path of ['/.env', '/outside.txt', '/etc/passwd', '/pipe']) {
        expect((await host.get(HOSTS[SITE], path)).status, path).toBe(404)
      }
      expect(await text(SITE, '/deep/er/page.html')).toBe(`deep one-${SITE}`)
    })

    it('are replaced without a failed request, and without another configuration of the proxy', async () => {
      const configuration = edgePaths(host.settings).configuration
      const before = statSync(configuration).mtimeMs
      const visitors = ALL.map((id) => ({
        id,
        fresh: new Visitor(host, HOSTS[id]),
        kept: new Visitor(host, HOSTS[id], '/', { keepAlive: true }),
      }))
      const second = {} as Record<Id, Deployment>
      await Promise.all(
        ALL.map(async (id) => {
          second[id] = await succeed(id, `two-${id}`)
        }),
      )
      for (const { id, fresh, kept } of visitors) {
        const seen = [await fresh.stop(), await kept.stop()]
        // one socket means one process: the proxy waits for the new one up to its timeout
        const gap = Number(/web was away for (\d+) ms/.exec(second[id].log())?.[1] ?? 0)
        if (gap > PROXY.tryMs / 2) continue
        expect(seen, `environment ${id}, away for ${gap} ms`).toEqual([
          [`one-${id}`, `two-${id}`],
          [`one-${id}`, `two-${id}`],
        ])
      }
      expect(second[SOCKET].log()).toMatch(/web was away for \d+ ms/)
      expect(second[NODE].log()).toMatch(/The version before answers no request any more/)
      expect(statSync(configuration).mtimeMs).toBe(before)
      const { statics } = environmentPaths(host.settings, SITE)
      expect(readdirSync(join(statics, 'web'))).toEqual([String(second[SITE].taskId)])
    })
  })

  describe('what fails leaves the version before', () => {
    const now = (id: Id): string => `two-${id}`
    const routesOf = (id: Id): unknown => readTable(host.settings).environments[id]?.routes

    it('files that are not there', async () => {
      const before = routesOf(SITE)
      const yaml = 'manual: { deploy: [echo x], services: { web: { root: dist/site } } }\n'
      const { verdict } = await fail(SITE, { '.service.yml': yaml })
      expect(verdict).toMatchObject({
        code: FailureCode.STATIC_FAILED,
        failedStepId: 'static:web',
        message: 'dist/site (service web) is not in the checkout.',
      })
      expect(await text(SITE)).toBe(now(SITE))
      expect(routesOf(SITE)).toEqual(before)
    })

    it('a folder that is a link out of the checkout', async () => {
      const yaml = 'manual: { deploy: [echo x], services: { web: { root: away } } }\n'
      const { verdict } = await fail(SITE, { '.service.yml': yaml, away: { link: '/etc' } })
      expect(verdict.message).toBe('away (service web) is not in the checkout.')
      expect(await text(SITE)).toBe(now(SITE))
    })

    it('a version that answers only those who ask it directly', async () => {
      const [before, current] = [
        routesOf(NODE),
        readLink(environmentPaths(host.settings, NODE).current),
      ]
      const visitor = new Visitor(host, HOSTS[NODE])
      const health = '{ path: /proxied, status: 200, start_period: 120s }'
      const yaml = run('late', `port: auto\nhealth: ${health}`).replace(
        'VERSION: late',
        'VERSION: late, MODE: late',
      )
      const { verdict, deployment } = await fail(NODE, { '.service.yml': yaml })
      expect(verdict).toMatchObject({
        code: FailureCode.VERIFY_FAILED,
        failedStepId: 'verify:web',
        message: `${HOSTS[NODE]}/proxied answered 500 through the proxy.`,
      })
      expect(deployment.log()).toContain('The routes are those of the version before again.')
      expect(await text(NODE)).toBe(now(NODE))
      expect(routesOf(NODE)).toEqual(before)
      expect(readLink(environmentPaths(host.settings, NODE).current)).toBe(current)
      // it answered during the proof, and no visitor got an error
      expect((await visitor.stop()).filter((said) => said !== 'late')).toEqual([now(NODE)])
    })

    it('a socket that is a link to another one', async (t) => {
      if (!isRoot) return t.skip('without accounts every socket is the developer’s own')
      const yaml = run('link', 'socket: app.sock\nhealth: /up').replace(
        `exec ${host.node} server.mjs`,
        `ln -sf ${findAdminSocket(host.settings)} $BERTH_SOCKET_DIR/app.sock; exec sleep 100`,
      )
      const { verdict } = await fail(SOCKET, { '.service.yml': yaml })
      expect(verdict).toMatchObject({
        code: FailureCode.HEALTH_CHECK_FAILED,
        message: expect.stringMatching(
          /app\.sock \(service web\) is not a socket of this environment\.$/,
        ),
      })
      await eventually(async () => (await text(SOCKET)) === now(SOCKET), 'the version before')
    })
  })

  describe('a runner that is killed', () => {
    it('between switch and proof: the next deployment begins with the version that was proven', async () => {
      const before = readTable(host.settings).environments[NODE]?.routes
      repositories[NODE].commit(FILES[NODE]('killed'))
      // a proof long enough that the kill always comes first
      const env = { BERTH_TEST_PROOF_MS: '600000' }
      const dead = host.start(repositories[NODE], { environmentId: NODE, host: HOSTS[NODE], env })
      await eventually(() => dead.steps()['verify:web'], 'the proof')
      dead.child.kill('SIGKILL')
      await dead.ended
      expect(await text(NODE)).toBe('killed')
      const visitor = new Visitor(host, HOSTS[NODE])
      const { verdict, deployment } = await fail(NODE, {}, { commit: 'c'.repeat(40) })
      expect(verdict.code).toBe(FailureCode.COMMIT_NOT_FOUND)
      expect(deployment.log()).toContain('were put back.')
      expect(deployment.log()).toContain(`Ending web of deployment ${dead.taskId}`)
      expect(await visitor.stop()).toEqual(['killed', `two-${NODE}`])
      expect(readTable(host.settings).environments[NODE]?.routes).toEqual(before)
    })
  })

  describe('a service that its owner keeps up', () => {
    const OWN = 4
    const name = 'own.shop.example.com'
    const yaml = (port: number, step: string): string => `manual:
  deploy: [${JSON.stringify(step)}]
  services:
    web: { root: public, auth: false }
    api: { port: ${port}, path: /api, health: { path: /up, start_period: 120s, retries: 1 } }
`

    it('is asked, routed below its path behind the password, and told about when a deployment fails', async () => {
      const port = await freePort()
      const repository = host.repository('own')
      const request = {
        environmentId: OWN,
        host: name,
        basicAuth: { username: 'ada', bcryptHash: BCRYPT },
      }
      const start = `VERSION=api PORT=${port} setsid ${host.node} server.mjs >/dev/null 2>&1 & echo $! >"$BERTH_SHARED_DIR/pid"; sleep 0.1`
      repository.commit({ 'public/index.html': 'files', 'server.mjs': SERVER })
      repository.commit({ '.service.yml': yaml(port, start) })
      const first = await host.deploy(repository, request)
      expect((await first.verdict()).message, first.log()).toBe('')
      const steps = Object.keys(first.steps())
      expect(steps.slice(steps.indexOf('activate'), steps.indexOf('verify:web'))).toEqual([
        ...['activate', 'health:api', 'static:web', 'switch'],
      ])
      expect((await host.get(name)).text).toBe('files')
      expect((await host.get(name, '/api/x')).status).toBe(401)
      const authorization = `Basic ${Buffer.from('ada:hunter2').toString('base64')}`
      expect((await host.get(name, '/api/x', { authorization })).text).toBe('api')

      repository.commit({ '.service.yml': yaml(port, 'exit 1') })
      const harmless = await host.deploy(repository, request)
      expect((await harmless.verdict()).message).toBe(
        `\`exit 1\` exited with 1. api still answers on port ${port}.`,
      )
      repository.commit({
        '.service.yml': yaml(port, 'kill -9 $(cat "$BERTH_SHARED_DIR/pid"); exit 1'),
      })
      const deadly = await host.deploy(repository, request)
      expect((await deadly.verdict()).message).toContain(
        `api is not healthy any more (GET /up got no answer on port ${port})`,
      )
      expect((await host.get(name)).text).toBe('files')
      const removed = await host.deploy(repository, { ...request, destroy: true })
      expect((await removed.verdict()).message, removed.log()).toBe('')
    })
  })

  describe('an earlier commit', () => {
    it('is deployed anew, in a release and a copy of its own', async () => {
      const commit = repositories[SITE].git('log', '--format=%H', '--grep=^one-')
      const back = await deploy(SITE, { commit })
      expect((await back.verdict()).message, back.log()).toBe('')
      expect(await text(SITE)).toBe(`one-${SITE}`)
      const { current, statics } = environmentPaths(host.settings, SITE)
      expect(readLink(current)).toBe(`releases/${back.taskId}`)
      expect(readdirSync(join(statics, 'web'))).toEqual([String(back.taskId)])
      expect(back.steps()['1']?.exitCode).toBe(0) // its commands ran again
    })
  })

  describe('removed', () => {
    it('without a trace', async () => {
      const { settings } = host
      const pids = ALL.flatMap((id) => processesOf(id))
      expect(pids.length).toBeGreaterThanOrEqual(2)
      const gone = await Promise.all(ALL.map((id) => deploy(id, { destroy: true })))
      for (const [index, id] of ALL.entries()) {
        const removal = gone[index] as Deployment
        expect((await removal.verdict()).message, removal.log()).toBe('')
        expect(Object.keys(removal.steps())[0]).toBe('unroute')
        expect((await host.get(HOSTS[id])).status).toBe(404)
        expect(allPaths(settings, id).filter((place) => existsSync(place))).toEqual([])
        const account = `${settings.accountPrefix}${id}`
        expect(spawnSync('getent', ['passwd', account], { encoding: 'utf8' }).stdout).toBe('')
        expect(processesOf(id)).toEqual([])
        expect(readTable(settings).environments[id]?.routes).toEqual([])
      }
      expect(readdirSync(edgePaths(settings).links)).toEqual([])
      expect(readdirSync(edgePaths(settings).sockets)).toEqual([])
      const ledger = host.ledger()
      expect([ledger.listProcesses(), ledger.listPlans()]).toEqual([[], []])
      ledger.close()
    })
  })
})

/** Every process with the environment's folder among its environment variables. */
const processesOf = (id: Id): number[] =>
  listProcesses()
    .map(({ pid }) => pid)
    .filter((pid) =>
      hasMarker(pid, `BERTH_SHARED_DIR=${environmentPaths(host.settings, id).shared}`),
    )
