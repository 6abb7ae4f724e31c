// Two environments of one server behind the real proxy, one of which wants the other's traffic: it takes the port after
// the service crashed, or connects past the password. With real accounts and sockets; each refusal has a control, which
// is the same try without the rules.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PROXY } from '../../agent/src/limits/proxy.ts'
import { openEngine } from '../../agent/src/machine/docker/engine.ts'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { readFirewallState } from '../../agent/src/machine/firewall/apply.ts'
import { lookAtParts } from '../../agent/src/machine/host-parts.ts'
import { findListeners } from '../../agent/src/machine/process/ports.ts'
import { findAccount } from '../../agent/src/machine/users/users.ts'
import { DriftWatch } from '../../agent/src/maintenance/drift.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { guardServer, unguardServer } from '../../agent/src/resources/firewall.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import { readState, serviceDir } from '../../agent/src/supervise/instructions.ts'
import { missing } from '../fixtures/platform/components.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { listGuardedPorts } from '../fixtures/server/packet-rules.ts'
import { ProxyHost } from '../fixtures/server/proxy-server.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { freePort } from '../fixtures/server/service.ts'

const VICTIM = 1
const NEIGHBOUR = 2
const HOST = 'app.shop.example.com'
const OTHER = 'other.shop.example.com'
/** Of hunter2, cost 4. */
const BCRYPT = '$2b$04$0xo3EaAXXiikt632rhWKUuTWXwdjCtADGLSPm/IRp3h4IOFYlmDWm'
const PASSWORD = { authorization: `Basic ${Buffer.from('ada:hunter2').toString('base64')}` }

const SERVER = `import { createServer } from 'node:http'
createServer((request, response) => response.end('served')).listen(process.env.PORT)
process.on('SIGTERM', () => process.exit(0))
`
/** Tries until the port is free; reports every connection. */
const SQUATTER = `const { createServer } = require('node:http')
const server = createServer((request, response) => response.end('stolen'))
server.on('connection', () => console.log('connection'))
server.on('error', () => setTimeout(() => server.listen(+process.argv[1]), 5))
server.listen(+process.argv[1], () => console.log('listening'))
`
const CONNECT = `require('node:net').connect({ host: process.argv[1], port: +process.argv[2] })
  .on('connect', () => process.exit(0)).on('error', () => process.exit(1)).setTimeout(3000, () => process.exit(2))
`

interface Squatter {
  process: ChildProcess
  said: () => string
}

class GuardedServer {
  readonly host: ProxyHost
  readonly #others: ChildProcess[] = []

  private constructor(host: ProxyHost) {
    this.host = host
  }

  /** Both environments are deployed; the first has a password. */
  static async open({ rules = true } = {}): Promise<GuardedServer> {
    const host = new ProxyHost()
    if (!rules) host.settings.firewall = false
    await host.startProxy()
    const server = new GuardedServer(host)
    await server.deploy(VICTIM, HOST)
    await server.deploy(NEIGHBOUR, OTHER)
    return server
  }

  async deploy(environmentId: number, hostName: string, target = 'auto'): Promise<void> {
    const { host } = this
    const repository = host.repository(`r${environmentId}`)
    const yaml = `manual: { deploy: [echo], services: { web: { port: ${target}, run: exec ${host.node} server.mjs } } }\n`
    repository.commit({ 'server.mjs': SERVER, '.service.yml': yaml })
    const basicAuth = { username: 'ada', bcryptHash: BCRYPT }
    const deployment = await host.deploy(repository, { environmentId, host: hostName, basicAuth })
    const { message, state } = await deployment.verdict()
    expect([message, state], deployment.log()).toEqual(['', AttemptState.SUCCEEDED])
  }

  row(environmentId: number) {
    const ledger = this.host.ledger()
    const row = ledger.listProcesses(environmentId).find(({ state }) => state === 'serving')
    ledger.close()
    if (!row?.port) throw new Error('nothing serves')
    return { ...row, port: row.port }
  }

  stateOf(environmentId: number) {
    const state = readState(serviceDir(this.host.settings, this.row(environmentId)))
    if (!state) throw new Error('no supervisor')
    return state
  }

  async guard(): Promise<void> {
    const ledger = this.host.ledger()
    await guardServer(this.host.settings, ledger, { isFresh: true })
    ledger.close()
  }

  /** Runs a command under this account, as its services run. */
  async as(account: string, source: string, ...args: string[]): Promise<ChildProcess> {
    const found = await findAccount(account)
    const rights = ['--reuid', String(found?.uid), '--regid', String(found?.gid), '--clear-groups']
    const argv = [...rights, '--', this.host.node, '-e', source, ...args]
    const child = spawn('setpriv', argv, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.#others.push(child)
    return child
  }

  accountOf = (environmentId: number): string =>
    `${this.host.settings.accountPrefix}${environmentId}`

  async squat(port: number): Promise<Squatter> {
    const child = await this.as(this.accountOf(NEIGHBOUR), SQUATTER, String(port))
    let said = ''
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    return { process: child, said: () => said }
  }

  /** The exit code: 0 connected, 1 refused, 2 no answer. */
  async connect(account: string, port: number, address = '127.0.0.1'): Promise<number | null> {
    const child = await this.as(account, CONNECT, address, String(port))
    const [code] = (await once(child, 'exit')) as [number | null]
    return code
  }

  /** Ends the service, which is not restarted before `resume`. */
  async crash(): Promise<{ resume: () => void }> {
    const { pid, supervisor } = this.stateOf(VICTIM)
    process.kill(supervisor.pid, 'SIGSTOP')
    const { port } = this.row(VICTIM)
    process.kill(pid, 'SIGKILL')
    await eventually(() => findListeners(port).length === 0, 'the end of the service')
    return { resume: () => process.kill(supervisor.pid, 'SIGCONT') }
  }

  ask(): Promise<string> {
    return this.host.get(HOST, '/', PASSWORD).then(
      ({ status, text }) => (status === 200 ? text : `status ${status}`),
      (error: Error) => error.message,
    )
  }

  async close(): Promise<void> {
    for (const child of this.#others) child.kill('SIGKILL')
    await this.host.close()
  }
}

const WAIT = { timeout: 120_000 }

describe.skipIf(!isRoot || missing('caddy'))('the port of a manual service', () => {
  let server: GuardedServer
  beforeAll(async () => {
    server = await GuardedServer.open()
  })
  afterAll(() => server.close())

  it(
    'cannot be taken by a neighbour when its service crashed, and the service is back',
    WAIT,
    async () => {
      const { port } = server.row(VICTIM)
      expect(await server.ask()).toBe('served')
      const { resume } = await server.crash()
      const squatter = await server.squat(port)
      await eventually(() => squatter.said().includes('listening'), 'the neighbour to listen')
      const answers = await Promise.all([server.ask(), server.ask(), server.ask()])
      expect(answers.filter((answer) => answer === 'stolen')).toEqual([])
      expect(squatter.said()).not.toContain('connection')
      // it must not be reported as running
      expect(await degradedReason(server)).toMatch(
        /^Port \d+ \(service web\) is held by \S+ \(pid \d+\), which does not belong to/,
      )
      resume()
      await eventually(async () => (await server.ask()) === 'served', 'the service to answer again')
      expect(squatter.process.signalCode).toBe('SIGKILL')
      const { logs } = environmentPaths(server.host.settings, VICTIM)
      const said = readLastLines(`${logs}/web`, server.row(VICTIM).taskId).join('\n')
      expect(said).toMatch(/of another environment held port \d+ and was ended/)
      expect(squatter.said()).not.toContain('connection')
    },
  )

  it('control: without the rules the neighbour gets the requests', WAIT, async () => {
    const { port } = server.row(VICTIM)
    await unguardServer(server.host.settings)
    const { resume } = await server.crash()
    try {
      const squatter = await server.squat(port)
      await eventually(() => squatter.said().includes('listening'), 'the neighbour to listen')
      expect(await server.ask()).toBe('stolen')
    } finally {
      await server.guard()
      resume()
    }
    await eventually(async () => (await server.ask()) === 'served', 'the service to answer again')
  })

  it('is open to its own account, root and the proxy, and to no neighbour', WAIT, async () => {
    const { port } = server.row(VICTIM)
    const [own, neighbour] = [server.accountOf(VICTIM), server.accountOf(NEIGHBOUR)]
    const addresses = ['127.0.0.1', '127.0.0.2', '::1', ...machineAddresses()]
    for (const address of addresses) {
      expect(await server.connect(neighbour, port, address), address).toBe(1)
      expect(await server.connect('nobody', port, address), address).toBe(1)
    }
    expect(await server.connect(own, port)).toBe(0)
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe('served')
    expect(await server.ask()).toBe('served')
    expect((await server.host.get(HOST)).status).toBe(401)
    await unguardServer(server.host.settings)
    try {
      expect(await server.connect(neighbour, port)).toBe(0)
    } finally {
      await server.guard()
    }
    expect(await server.connect(neighbour, port)).toBe(1)
  })

  it('rules that somebody emptied come back', WAIT, async () => {
    const { port } = server.row(VICTIM)
    const neighbour = server.accountOf(NEIGHBOUR)
    const chain = chainOf(port)
    execFileSync('iptables', ['-F', chain])
    expect(await server.connect(neighbour, port)).toBe(0)
    await server.guard()
    expect(await server.connect(neighbour, port)).toBe(1)
  })

  it('a database of another account on loopback is reached', WAIT, async () => {
    const port = await freePort()
    const database = await server.as('nobody', SQUATTER, String(port))
    await once(database.stdout as NodeJS.ReadableStream, 'data')
    expect(await server.connect(server.accountOf(VICTIM), port)).toBe(0)
  })

  it(
    'a fixed port stays its own while it is down, and is free when the environment is gone',
    WAIT,
    async () => {
      const port = await freePort()
      await server.deploy(3, 'fixed.shop.example.com', String(port))
      expect(listGuardedPorts()).toContain(port)
      const row = server.row(3)
      process.kill(readState(serviceDir(server.host.settings, row))?.supervisor.pid ?? 0, 'SIGKILL')
      process.kill(readState(serviceDir(server.host.settings, row))?.pid ?? 0, 'SIGKILL')
      await eventually(() => findListeners(port).length === 0, 'its end')
      const repository = server.host.repository('r4')
      const yaml = `manual: { deploy: [echo], services: { web: { port: ${port}, run: exec sleep 60 } } }\n`
      repository.commit({ '.service.yml': yaml })
      const thief = await server.host.deploy(repository, {
        environmentId: 4,
        host: 'four.shop.example.com',
      })
      expect(await thief.verdict()).toMatchObject({
        code: FailureCode.PORT_IN_USE,
        failedStepId: 'ports',
        message: expect.stringContaining(`Port ${port} (service web) is kept for environment 3`),
      })
      const removal = await server.host.deploy(server.host.repository('r3'), {
        environmentId: 3,
        destroy: true,
      })
      expect((await removal.verdict()).message, removal.log()).toBe('')
      expect(listGuardedPorts()).not.toContain(port)
      expect(listGuardedPorts()).toContain(server.row(VICTIM).port)
    },
  )

  it('a fixed port that a failed deployment wanted is given back', WAIT, async () => {
    const port = await freePort()
    const repository = server.host.repository('r5')
    const yaml = `manual: { deploy: [exit 3], services: { web: { port: ${port}, run: exec sleep 60 } } }\n`
    repository.commit({ '.service.yml': yaml })
    const failed = await server.host.deploy(repository, {
      environmentId: 5,
      host: 'five.shop.example.com',
    })
    expect((await failed.verdict()).state).toBe(AttemptState.FAILED)
    expect(listGuardedPorts()).not.toContain(port)
  })

  it('the name server and the pages of the edge cannot be taken either', WAIT, async () => {
    const { settings } = server.host
    const saved = execFileSync('iptables-save', ['-t', 'filter'], { encoding: 'utf8' })
    const rule = `-p udp -m udp --sport ${settings.proxy.dnsPort} -m owner ! --uid-owner 0 -j DROP`
    expect(saved).toContain(rule)
  })
})

const SILENT = { rules: false }
describe.skipIf(!isRoot || missing('caddy'))('without packet rules', () => {
  let server: GuardedServer
  beforeAll(async () => {
    server = await GuardedServer.open(SILENT)
  })
  afterAll(() => server.close())

  it(
    'the server says so, and a route ends before a neighbour can take the port',
    WAIT,
    async () => {
      const { settings } = server.host
      const parts = await lookAtParts(settings)
      const part = parts.find(({ name }) => name === 'firewall')
      expect(part).toMatchObject({
        version: '',
        reason: expect.stringContaining('BERTH_FIREWALL=off'),
      })
      const { port } = server.row(VICTIM)
      expect(await server.ask()).toBe('served')
      const { resume } = await server.crash()
      await eventually(async () => (await server.ask()) === 'status 503', 'the page')
      const squatter = await server.squat(port)
      await eventually(() => squatter.said().includes('listening'), 'the neighbour to listen')
      // longer than the proxy caches a target
      const answers = new Set<string>()
      const end = performance.now() + 3 * PROXY.refreshMs
      while (performance.now() < end) answers.add(await server.ask())
      expect([...answers]).toEqual(['status 503'])
      expect(squatter.said()).not.toContain('connection')
      resume()
      await eventually(async () => (await server.ask()) === 'served', 'the service to answer again')
    },
  )

  it('a kernel that refuses is told of in words', WAIT, async () => {
    const { settings } = server.host
    const source = `import(process.argv[1]).then(async ({ guardServer }) => {
      const state = await guardServer(JSON.parse(process.argv[2]), undefined, { isFresh: true })
      console.log(JSON.stringify(state))
    })`
    const module = new URL('../../agent/src/resources/firewall.ts', import.meta.url).href
    const given = JSON.stringify({ ...settings, firewall: true })
    const caps = ['--bounding-set', '-net_admin', '--inh-caps', '-net_admin']
    const argv = [...caps, '--', process.execPath, '-e', source, module, given]
    const said = execFileSync('setpriv', argv, { encoding: 'utf8' })
    expect(JSON.parse(said)).toMatchObject({
      isInForce: false,
      reason: expect.stringMatching(/^Packet rules by account cannot be set: .*[Pp]ermi/),
    })
    expect(readFirewallState(settings)?.isInForce).toBe(false)
  })
})

/** As the server reports it to the control plane. */
async function degradedReason({ host }: GuardedServer): Promise<string> {
  const { settings } = host
  const observations = new Observations()
  const watch = new DriftWatch({
    settings,
    engine: openEngine(settings),
    observations,
    now: () => Date.now(),
  })
  const ledger = host.ledger()
  await watch.look(ledger, VICTIM)
  ledger.close()
  return observations.find(VICTIM)?.degradedReason ?? ''
}

/** Addresses except loopback. */
function machineAddresses(): string[] {
  const shown = execFileSync('ip', ['-4', '-o', 'addr'], { encoding: 'utf8' })
  return [...shown.matchAll(/inet (\d+\.\d+\.\d+\.\d+)/g)]
    .map((m) => m[1] as string)
    .filter((address) => !address.startsWith('127.'))
    .slice(0, 1)
}

/** The chain that blocks connections of others to this port. */
function chainOf(port: number): string {
  const saved = execFileSync('iptables-save', ['-t', 'filter'], { encoding: 'utf8' })
  return new RegExp(`^-A (BERTH-\\S+-O) .*--dport ${port} `, 'm').exec(saved)?.[1] ?? ''
}
