// Ceilings where they take effect: set over HTTP, sent to a real agent, compared with the service file before anything
// changes, and enforced by the engine and the kernel.
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Environment, Server } from '@berth/shared/api'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { getContainer, openEngine } from '../../agent/src/machine/docker/engine.ts'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { DriftWatch } from '../../agent/src/maintenance/drift.ts'
import type { Observations } from '../../agent/src/maintenance/observations.ts'
import { measureEnvironments } from '../../agent/src/resources/measure.ts'
import { smallApp } from '../fixtures/docker/app.ts'
import { dockerEnvironment } from '../fixtures/docker/docker-fixture.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture } from '../fixtures/server/installation.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

const GiB = 1_024 ** 3
const MiB = 1_024 ** 2
const ADVICE = 'Ask for less in .service.yml, or let an administrator raise the limit.'
const engine = dockerEngine()

describe.skipIf(!engine || missing('caddy'))('a ceiling set over HTTP', () => {
  let fixture: Fixture
  let environment: Environment
  beforeAll(async () => {
    if (!engine) return
    fixture = await Fixture.open({ docker: engine })
    const app = smallApp('one')
    const greedy = app['.service.yml']?.replace(/^( *)(port: \d+)/m, '$1$2\n$1memory: 600m') ?? ''
    expect(greedy).toContain('memory: 600m')
    environment = await dockerEnvironment(fixture, 'greedy', { ...app, '.service.yml': greedy })
  })
  afterAll(() => fixture?.close())

  const setLimit = async (memory_bytes: number | null): Promise<void> => {
    const [server] = await fixture.get<Server[]>('/api/servers')
    const body = { name: 'fra-1', limits: { memory_bytes } }
    await fixture.call('PATCH', `/api/servers/${server?.id}`, body)
  }

  it('refuses the file that asks for more, by REST; raised, the same file is deployed', async () => {
    await setLimit(512 * MiB)
    const refused = await fixture.finished((await fixture.deploy(environment.id)).id)
    expect(refused).toMatchObject({
      status: 'failed',
      failure: {
        code: 'config_invalid',
        step: 'read-config',
        message: `web asks for 600 MiB of memory; an environment of this project may use 512 MiB on fra-1. ${ADVICE}`,
      },
    })
    await setLimit(GiB)
    const done = await fixture.finished((await fixture.deploy(environment.id)).id)
    expect(done.status, JSON.stringify(done.failure)).toBe('succeeded')
  })
})

describe.skipIf(!engine || missing('caddy') || !isRoot)('a ceiling of containers', () => {
  let host: DockerHost
  beforeAll(async () => {
    host = await DockerHost.open()
  })
  afterAll(() => host.close())

  it('is shared by those that ask for nothing, and set in the engine', async () => {
    const repository = host.repository('shared')
    repository.commit(
      httpd('one', {
        '.service.yml':
          'docker: { services: { web: { build: ., port: 8080, memory: 64m, cpus: 0.2 }, a: { build: ., command: exec sleep 1000 }, b: { build: ., command: exec sleep 1000 } } }\n',
      }),
    )
    const limits = { memoryBytes: BigInt(256 * MiB), cpuMillis: 600, pids: 90 }
    const done = await host.run(repository, { limits })
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    const found: Record<string, unknown> = {}
    for (const { id, labels } of await host.containers(1)) {
      const { HostConfig: c } = await (await getContainer(host.engine, id)).inspect()
      const [memory, cpus] = [Number(c.Memory) / MiB, Number(c.NanoCpus) / 1e9]
      found[labels['dev.berth.service'] ?? ''] = [memory, cpus, c.PidsLimit]
    }
    expect(found).toEqual({ web: [64, 0.2, 30], a: [96, 0.2, 30], b: [96, 0.2, 30] })
  })
})

describe('a ceiling of the manual recipe', () => {
  let host: AgentHost
  beforeAll(() => {
    host = new AgentHost()
  })
  afterAll(() => host.close())

  it('refuses processes that ask for more, before a command runs', async () => {
    const repository = host.repository('manual')
    repository.commit({
      '.service.yml': `manual:
  deploy: ['echo COMMANDS-$((40+2))']
  services:
    web: { run: exec sleep 1000, memory: 300m }
    queue: { run: exec sleep 1000, memory: 300m }
`,
    })
    const limits = { memoryBytes: BigInt(512 * MiB) }
    const refused = await host.deploy(repository, { limits })
    expect(await refused.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.CONFIG_INVALID,
      failedStepId: 'read-config',
      platformCheck: true,
      message: `web and queue together ask for 600 MiB of memory; an environment of this project may use 512 MiB on ${hostname()}. ${ADVICE}`,
    })
    expect(refused.log()).not.toContain('COMMANDS-42')
  })

  it('of the disk counts files with holes, refuses the deployment and makes it degraded', async () => {
    const repository = host.repository('disk')
    repository.commit({ '.service.yml': `manual: { deploy: ['echo ran'] }\n` })
    const limits = { diskBytes: BigInt(GiB) }
    const request = { environmentId: 2, limits }
    const first = await host.deploy(repository, request)
    expect(await first.verdict(), first.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    const folder = join(environmentPaths(host.settings, 2).shared, 'data')
    mkdirSync(folder, { recursive: true })
    const sparse = join(folder, 'sparse')
    writeFileSync(sparse, '')
    truncateSync(sparse, 3 * GiB)
    const looks = new Looks(host)
    await looks.measure()
    const says = `pr-42 uses 3.0 GB of disk; an environment of this project may use 1.0 GB on ${hostname()}. Remove what it does not need any more, or let an administrator raise the limit.`
    expect(await looks.degradedReason(2)).toBe(says)
    const refused = await host.deploy(repository, request)
    expect(await refused.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.DISK_FULL,
      failedStepId: 'admit',
      message: `${says} Nothing was changed.`,
    })
    // measured again before a refusal, so freed space counts immediately
    truncateSync(sparse, 0)
    const again = await host.deploy(repository, request)
    expect(await again.verdict(), again.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(await looks.degradedReason(2)).toBe('')
  })
})

/** The daemon's own measurements, without the daemon. */
class Looks {
  readonly #host: AgentHost

  constructor(host: AgentHost) {
    this.#host = host
  }

  async measure(): Promise<void> {
    const { settings } = this.#host
    const ledger = this.#host.ledger()
    await measureEnvironments(openEngine(settings), ledger, settings)
    ledger.close()
  }

  async degradedReason(environmentId: number): Promise<string> {
    const { settings } = this.#host
    const ledger = this.#host.ledger()
    const seen: string[] = []
    const observations = {
      set: ({ degradedReason }: { degradedReason: string }) => void seen.push(degradedReason),
      clear: () => undefined,
    } as unknown as Observations
    const watch = new DriftWatch({
      settings,
      engine: openEngine(settings),
      observations,
      now: Date.now,
    })
    await watch.look(ledger, environmentId)
    ledger.close()
    return seen.at(-1) ?? 'nothing was seen'
  }
}
