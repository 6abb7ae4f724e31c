// Edge and Caddy as processes: they outlive the daemon, are restarted when killed, and report why they cannot run. Also
// what other parts of the machine bring: certificates, containers, the control plane's settings.
import { spawn, spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { EdgeSettingsSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { afterEach, describe, expect, it } from 'vitest'
import { type RunningAgent, startAgent } from '../../agent/src/agent.ts'
import { createAuthority } from '../../agent/src/link/identity/authority.testing.ts'
import { createKeyRequest } from '../../agent/src/link/identity/certificate.ts'
import { writeIdentity } from '../../agent/src/link/identity/identity.ts'
import { Peer } from '../../agent/src/link/peer.testing.ts'
import { findCaddy } from '../../agent/src/machine/caddy-program.ts'
import {
  createContainer,
  killContainer,
  removeContainer,
  startContainer,
} from '../../agent/src/machine/docker/containers.ts'
import { openEngine } from '../../agent/src/machine/docker/engine.ts'
import { readOwner, readProcess } from '../../agent/src/machine/process/processes.ts'
import { locateProgram } from '../../agent/src/machine/process/programs.ts'
import { setUpProxy } from '../../agent/src/proxy/caddy/setup.ts'
import { ensureKeys } from '../../agent/src/proxy/paths.ts'
import { writeProxyProcess } from '../../agent/src/proxy/process-files.ts'
import { ensureProxy, stopProxy } from '../../agent/src/proxy/supervision.ts'
import { readTable } from '../../agent/src/proxy/table.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { AGENT_PROGRAM, EdgeFixture, freePort } from '../fixtures/server/edge.ts'
import { startLoad } from '../fixtures/server/edge-load.ts'
import { until } from '../fixtures/server/installation.ts'

const HASH = '$2b$04$T0YAzMArh0qeRZnslY9HlekJGy6gL/P39lcnpLH6deTHyIA69Kpdm'

describe.skipIf(missing('caddy'))('edge and Caddy', () => {
  const closers: (() => unknown)[] = []
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close()
  })
  const opened = async (
    env?: Record<string, string>,
    options?: { hasAccount: boolean },
  ): Promise<EdgeFixture> => {
    const fixture = await EdgeFixture.prepare(env, options)
    closers.push(() => fixture.close())
    return fixture
  }
  const serves = (fixture: EdgeFixture, host: string, text: string) =>
    until(
      `${text} at ${host}`,
      async () => (await fixture.ask({ host })).text === text || undefined,
    )

  it('a killed Caddy is back and serves the same by itself', async () => {
    const fixture = await opened()
    fixture.keepUp()
    await until('the edge', async () => (await fixture.edge.describe()).caddy.up || undefined)
    const { target } = await fixture.application('web')
    const host = 'pr-1.localhost'
    await fixture.route(1, [
      { host, target },
      { host, path: '/own', service: 'own', target },
    ])
    const before = { caddy: fixture.pidOf('caddy'), edge: fixture.pidOf('edge') }
    process.kill(before.caddy, 'SIGKILL')
    await until('another Caddy', () => fixture.pidOf('caddy') !== before.caddy || undefined)
    await serves(fixture, host, 'web /')
    expect((await fixture.ask({ host, path: '/own' })).text).toBe('web /own')
    expect(fixture.pidOf('edge')).toBe(before.edge)
    // a change while Caddy is down waits for it
    process.kill(fixture.pidOf('caddy'), 'SIGKILL')
    await fixture.edge.setAuth({
      environmentId: 1,
      revision: 1n,
      basicAuth: { username: 'a', passwordHash: HASH },
    })
    await fixture.route(2, [{ host: 'pr-2.localhost', target }])
    await serves(fixture, 'pr-2.localhost', 'web /')
    expect((await fixture.ask({ host })).status).toBe(401)
  })

  it('a new daemon finds them again; other settings need another edge', async () => {
    const fixture = await opened()
    const { target } = await fixture.application('web')
    const letGo = fixture.keepUp()
    await until('the edge', async () => (await fixture.edge.describe()).caddy.up || undefined)
    await fixture.route(1, [{ host: 'a.localhost', target }])
    const pids = [fixture.pidOf('edge'), fixture.pidOf('caddy')]
    letGo()
    expect((await fixture.ask({ host: 'a.localhost' })).text).toBe('web /')
    await ensureProxy(fixture.settings, AGENT_PROGRAM)
    expect([fixture.pidOf('edge'), fixture.pidOf('caddy')]).toEqual(pids)
    const port = await freePort()
    const other = { ...fixture.settings.proxy, http: { address: '127.0.0.1', port } }
    await ensureProxy({ ...fixture.settings, proxy: other }, AGENT_PROGRAM)
    expect(fixture.pidOf('edge')).not.toBe(pids[0])
    expect(fixture.pidOf('caddy')).toBe(pids[1])
    await until('the other port', async () => {
      const { text } = await fixture.ask({ host: 'a.localhost', port })
      return text === 'web /' || undefined
    })
  })

  it.skipIf(!locateProgram('caddy'))(
    'a Caddy of another version takes over under load, and another one after it; passwords hold',
    async ({ skip }) => {
      const fixture = await opened({ BERTH_PROXY_CADDY: 'system' })
      const { caddy: _, ...proxy } = fixture.settings.proxy
      const shipped = { ...fixture.settings, proxy }
      const programs = [await findCaddy(fixture.settings), await findCaddy(shipped)]
      skip(programs[0]?.version === programs[1]?.version, 'there is only one version here')
      await ensureProxy(fixture.settings, AGENT_PROGRAM)
      const answer = (_: unknown, response: ServerResponse): void => {
        response.setHeader('x-application', 'web')
        response.end('web')
      }
      const { target } = await fixture.application('web', answer)
      const [host, guarded] = ['open.localhost', 'guarded.localhost']
      await fixture.route(1, [{ host, target }])
      const basicAuth = { username: 'a', passwordHash: HASH }
      await fixture.edge.setAuth({ environmentId: 2, revision: 1n, basicAuth })
      await fixture.route(2, [{ host: guarded, target }])
      const { port } = fixture.settings.proxy.http
      const load = startLoad({ port, host }, { connections: 2, keepAlive: false, posts: false })
      const pids: number[] = [fixture.pidOf('caddy')]
      for (const [settings, program] of [
        [shipped, programs[1]],
        [fixture.settings, programs[0]],
      ] as const) {
        await ensureProxy(settings, AGENT_PROGRAM)
        await until('the end of the former', () => !readProcess(pids.at(-1) ?? 0) || undefined)
        await load.stop() // only for the first one: a newer one closes silent connections when it ends (decision 0034)
        expect(load.failures).toEqual([])
        pids.push(fixture.pidOf('caddy'))
        await serves(fixture, host, 'web')
        expect((await fixture.ask({ host: guarded })).status).toBe(401)
        const { caddy } = await fixture.edge.describe()
        expect(caddy).toEqual({ up: true, version: program?.version, reason: '' })
      }
      expect(new Set(pids).size).toBe(3)
    },
  )

  it('an edge that starts slowly is known from its launch, and a failed start hides no live one', async () => {
    const fixture = await opened()
    await ensureProxy(fixture.settings, AGENT_PROGRAM)
    const { edgeProcess, edgeStart } = fixture.paths
    const up = readFileSync(edgeProcess, 'utf8')
    const launched = join(fixture.folder, 'launched')
    // the daemon finds no edge and starts one; meanwhile an earlier one comes up, so that this one fails
    rmSync(edgeProcess)
    rmSync(edgeStart)
    const script = `until [ -s ${edgeStart} ]; do :; done; cat ${edgeStart} >${launched}; echo '${up}' >${edgeProcess}; exit 1`
    await ensureProxy(fixture.settings, ['sh', '-c', `echo $$ >${launched}.pid; ${script}`])
    const pid = Number(readFileSync(`${launched}.pid`, 'utf8'))
    expect(JSON.parse(readFileSync(launched, 'utf8'))).toMatchObject({ pid })
    expect(readFileSync(edgeProcess, 'utf8').trim()).toBe(up)
    await ensureProxy(fixture.settings, AGENT_PROGRAM)
    expect(fixture.pidOf('edge')).toBe(JSON.parse(up).pid)
    await stopProxy(fixture.settings)
    expect(readProcess(JSON.parse(up).pid)).toBe(undefined)
  })

  it('ends an edge that a killed daemon was still starting', async () => {
    const fixture = await opened()
    const slow = spawn('sleep', ['60'], { stdio: 'ignore' })
    closers.push(() => slow.kill('SIGKILL'))
    mkdirSync(fixture.settings.runDir, { recursive: true })
    writeProxyProcess(fixture.paths.edgeStart, slow.pid ?? 0)
    const ended = once(slow, 'exit')
    await ensureProxy(fixture.settings, AGENT_PROGRAM)
    expect(await ended).toEqual([null, 'SIGTERM'])
  })

  it('says which process holds the port, and starts when it is free', async () => {
    const fixture = await opened()
    const holder = createServer()
    const { port } = fixture.settings.proxy.http
    await new Promise<void>((resolve) => holder.listen(port, '127.0.0.1', resolve))
    fixture.keepUp()
    const held = await until('the reason', async () => {
      const { caddy } = await fixture.edge.describe()
      return caddy.reason.includes('is held by') ? caddy : undefined
    })
    expect(held.up).toBe(false)
    expect(held.reason).toMatch(new RegExp(`^Port ${port} is held by .*\\(pid ${process.pid}\\)`))
    await new Promise((resolve) => holder.close(resolve))
    await until('Caddy', async () => (await fixture.edge.describe()).caddy.up || undefined)
  })

  it('says what the edge itself lacks, to whoever needs it', async () => {
    const fixture = await opened()
    const port = Number(fixture.settings.proxy.dnsPort)
    const holder = createSocket('udp4')
    await new Promise<void>((resolve) => holder.bind(port, '127.0.0.1', resolve))
    await expect(fixture.edge.describe()).rejects.toThrow('does not answer')
    fixture.keepUp()
    await until('the reason', () =>
      fixture.edge.describe().then(
        () => undefined,
        ({ message }: Error) =>
          message.includes(`UDP port ${port} is held by another`) || undefined,
      ),
    )
    await new Promise<void>((resolve) => holder.close(resolve))
    await until('Caddy', async () => (await fixture.edge.describe()).caddy.up || undefined)
  })

  it.skipIf(process.getuid?.() !== 0)('after set-up Caddy has an account of its own', async () => {
    const fixture = await opened({}, { hasAccount: false })
    const name = fixture.settings.accountPrefix.replace('-e', '-caddy')
    const said: string[] = []
    expect(await setUpProxy(fixture.settings, (line) => said.push(line))).toBe(0)
    expect(said).toContain(`Account ${name}: made.`)
    expect(said).toContain(`Port ${fixture.settings.proxy.http.port}: free.`)
    await ensureProxy(fixture.settings, AGENT_PROGRAM)
    const { target } = await fixture.application('web')
    const socket = join(fixture.folder, 'x.sock')
    const root = join(fixture.folder, 'files')
    mkdirSync(root)
    writeFileSync(join(root, 'index.html'), 'files')
    await fixture.route(1, [
      { host: 'a.localhost', target },
      { host: 'b.localhost', target: { kind: 'static', root } },
      { host: 'c.localhost', target: { kind: 'socket', path: socket } },
    ])
    expect((await fixture.ask({ host: 'a.localhost' })).text).toBe('web /')
    expect((await fixture.ask({ host: 'b.localhost' })).text).toBe('files')
    const uid = Number(spawnSync('id', ['-u', name], { encoding: 'utf8' }).stdout)
    expect(uid).toBeGreaterThan(0)
    expect(readOwner(fixture.pidOf('caddy'))).toBe(uid)
    const status = readFileSync(`/proc/${fixture.pidOf('caddy')}/status`, 'utf8')
    // only the capability to bind low ports
    expect(/^CapEff:\t([0-9a-f]+)$/m.exec(status)?.[1]).toBe('0000000000000400')
    expect(/^CapBnd:\t([0-9a-f]+)$/m.exec(status)?.[1]).toBe('0000000000000400')
    expect(statSync(fixture.paths.configuration).mode & 0o777).toBe(0o640)
    expect(said.length).toBeGreaterThan(3)
    expect(await setUpProxy(fixture.settings, (line) => said.push(line))).toBe(0)
    expect(said).toContain(`Port ${fixture.settings.proxy.http.port}: served by Berth.`)
  })

  it('certificates only for hosts of the table, and the way from http to https', async () => {
    const https = await freePort()
    const fixture = await opened({
      BERTH_PROXY_HTTPS: `127.0.0.1:${https}`,
      BERTH_PROXY_TLS: 'internal',
    })
    await ensureProxy(fixture.settings, AGENT_PROGRAM)
    const { target, port } = await fixture.application('web')
    const host = 'shop.example.test'
    await fixture.route(1, [
      { host, target },
      { host: 'shop.localhost', target },
    ])
    const { pagePort } = readTable(fixture.settings)
    const may = async (domain: string, key = ensureKeys(fixture.settings).ask) => {
      const path = `/ask/${key}?domain=${domain}`
      return (await fixture.ask({ host: '127.0.0.1', port: pagePort, path })).status
    }
    expect(await may(host)).toBe(200)
    expect(await may('other.example.test')).toBe(404)
    expect(await may('shop.localhost')).toBe(404)
    expect(await may(host, 'guess')).not.toBe(200)
    expect(fixture.edge.urlOf(host, '/')).toBe(`https://${host}:${https}/`)
    expect(fixture.edge.urlOf('shop.localhost', '/')).toMatch(/^http:\/\/shop\.localhost:/)
    const moved = await fixture.ask({ host, path: '/x?y=1' })
    expect(moved.status).toBe(308)
    expect(moved.headers.location).toBe(`https://${host}:${https}/x?y=1`)
    expect((await fixture.ask({ host: 'other.example.test' })).status).toBe(404)
    expect((await fixture.ask({ host: 'shop.localhost' })).text).toBe('web /')
    expect(await fixture.edge.probe({ host, path: '/', status: 200, timeoutMs: 5_000 })).toEqual({
      status: 200,
      upstream: `127.0.0.1:${port}`,
    })
    const answer = await askTls(https, host)
    expect(answer).toContain('web /')
    expect(answer).toMatch(/^strict-transport-security: max-age=31536000\r$/im)
    await expect(askTls(https, 'other.example.test')).rejects.toThrow()
  })

  it.skipIf(!dockerEngine())(
    'containers: found by id, gone ones get their page at once',
    async () => {
      const fixture = await opened()
      await ensureProxy(fixture.settings, AGENT_PROGRAM)
      const engine = openEngine(fixture.settings)
      const id = await createContainer(engine, {
        name: `${fixture.settings.owner}-edge-${process.pid}`,
        image: 'berth-test/busybox',
        entrypoint: ['/bin/sh', '-c'],
        command: ['mkdir /w; echo contained > /w/index.html; exec httpd -f -p 8080 -h /w'],
        env: [],
        labels: { 'dev.berth.agent': `edge-${process.pid}` },
        network: 'bridge',
        aliases: [],
        mounts: { file: [], volumes: [] },
        memoryBytes: 64 * 2 ** 20,
        cpus: 1,
        pids: 32,
        init: true,
        stopTimeoutMs: 1_000,
        restart: 'no',
        untrusted: false,
      })
      closers.push(() => removeContainer(engine, id))
      const host = 'contained.localhost'
      const target = { kind: 'container' as const, id, port: 8080 }
      await expect(fixture.route(1, [{ host, target }])).rejects.toThrow('is not running')
      await startContainer(engine, id)
      await fixture.route(1, [{ host, target }])
      await serves(fixture, host, 'contained\n')
      await killContainer(engine, id)
      await until('the page', async () => (await fixture.ask({ host })).status === 503 || undefined)
      const gone = await fixture.ask({ host })
      expect(gone.text).toContain('Not running') // after a timeout it would be 'No answer'
      await startContainer(engine, id)
      await serves(fixture, host, 'contained\n')
    },
  )

  it('the daemon: keeps them, tells them passwords, leaves them running when it ends', async () => {
    const fixture = await opened()
    const authority = await createAuthority()
    const peer = new Peer(authority)
    await peer.listen()
    closers.push(() => peer.stop())
    const { key, csrPem } = await createKeyRequest()
    mkdirSync(fixture.settings.stateDir, { mode: 0o711 })
    writeIdentity(fixture.settings, {
      agentId: 'agent-1',
      serverId: 1,
      baseUrl: 'http://127.0.0.1:1/',
      endpoints: [`127.0.0.1:${peer.port}`],
      generation: 1,
      renewAt: '',
      sshUserCaKeys: [],
      key,
      certificate: await authority.issueAgent(csrPem),
      ca: [authority.pem],
    })
    const start = async (): Promise<RunningAgent> => {
      const agent = await startAgent(fixture.settings, { program: AGENT_PROGRAM, routes: true })
      await agent.reached('active')
      return agent
    }
    const first = await start()
    await until('the edge', async () => (await fixture.edge.describe()).caddy.up || undefined)
    const { target } = await fixture.application('web')
    await fixture.route(7, [{ host: 'seven.localhost', target }])
    expect((await fixture.ask({ host: 'seven.localhost' })).text).toBe('web /')
    const settings = create(EdgeSettingsSchema, {
      environments: [
        { environmentId: 7, revision: 2n, basicAuth: { username: 'a', bcryptHash: HASH } },
      ],
    })
    peer.send({ case: 'edge', value: settings })
    const status = async () => (await fixture.ask({ host: 'seven.localhost' })).status
    await until('the password', async () => (await status()) === 401 || undefined)
    const pids = [fixture.pidOf('edge'), fixture.pidOf('caddy')]
    await first.close()
    expect(await status()).toBe(401)
    const second = await start()
    closers.push(() => second.kill())
    expect([fixture.pidOf('edge'), fixture.pidOf('caddy')]).toEqual(pids)
    expect(await status()).toBe(401)
  })
})

/** One request over TLS with this name, with any certificate. */
function askTls(port: number, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({
      host: '127.0.0.1',
      port,
      servername: host,
      rejectUnauthorized: false,
    })
    let text = ''
    socket.setTimeout(20_000, () => socket.destroy(new Error('no answer in 20 s')))
    socket.on('error', reject)
    socket.on('secureConnect', () =>
      socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`),
    )
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8')
    })
    socket.on('end', () => resolve(text))
  })
}
