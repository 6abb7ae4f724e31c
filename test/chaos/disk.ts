// Deployments over many environments on a disk that holds only some of them: unneeded data must be removed in time, and
// nothing else. Afterwards everything is removed, and nothing may be left.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Task } from '@berth/shared/api'
import { callEngine } from '../../scripts/docker-engine.ts'
import { thousands } from '../bench/figures.ts'
import { smallApp } from '../fixtures/docker/app.ts'
import { dockerEnvironment } from '../fixtures/docker/docker-fixture.ts'
import { type Fixture, until } from '../fixtures/server/installation.ts'
import type { FixtureEngine } from '../fixtures/server/installation-docker.ts'
import { askProxy } from './docker-state.ts'
import type { Foreign } from './foreign.ts'
import type { SmallDisk } from './small-disk.ts'

const MiB = 1_024 ** 2
/** The running version, and two earlier ones for a rollback. */
const KEPT_IMAGES = 3
const TASK_MS = 1_200_000
const REMOVE_MS = 180_000
/** Less than the smallest deployment needs. */
const TOO_LITTLE = 200 * MiB
const REPORT_EACH = 20

export interface DiskPlan {
  fixture: Fixture
  engine: FixtureEngine
  foreign: Foreign
  /** Without it the machine's own disk is used and not filled. */
  disk?: SmallDisk
  environments: number
  deployments: number
  /** Random bytes that every image adds. */
  payloadMiB: number
  say: (line: string) => void
}

export interface DiskVerdict {
  succeeded: number
  diskFull: number
  /** Total bytes of all images. */
  built: number
  leastFree: number
  mostImages: number
  violations: string[]
}

interface Target {
  name: string
  environment: Environment
  version: number
}

const files = (name: string, version: number, payloadMiB: number): Record<string, string> => {
  const app = smallApp(`${name}-${version}`)
  const payload = `RUN dd if=/dev/urandom of=payload bs=1M count=${payloadMiB} 2>/dev/null\n`
  return { ...app, Dockerfile: app.Dockerfile?.replace('CMD ', `${payload}CMD `) ?? '' }
}

class DiskRun {
  readonly #plan: DiskPlan
  readonly #targets: Target[] = []
  #left: number
  #nextReport = REPORT_EACH
  readonly verdict: DiskVerdict = {
    succeeded: 0,
    diskFull: 0,
    built: 0,
    leastFree: Number.POSITIVE_INFINITY,
    mostImages: 0,
    violations: [],
  }

  constructor(plan: DiskPlan) {
    this.#plan = plan
    this.#left = plan.deployments
  }

  #violated(what: string): void {
    this.verdict.violations.push(what)
    this.#plan.say(`VIOLATED: ${what}`)
  }

  async setUp(): Promise<void> {
    const { fixture, environments, payloadMiB } = this.#plan
    for (let n = 1; n <= environments; n++) {
      const name = `disk${n}`
      const environment = await dockerEnvironment(fixture, name, files(name, 0, payloadMiB))
      this.#targets.push({ name, environment, version: 0 })
    }
  }

  async #deploy(target: Target): Promise<Task> {
    const { fixture, payloadMiB } = this.#plan
    target.version += 1
    fixture.repository(target.name, files(target.name, target.version, payloadMiB))
    const { id } = await fixture.deploy(target.environment.id)
    const task = await fixture.finished(id, TASK_MS)
    const text = `${(await fixture.log(id)).toString()} ${JSON.stringify(task.failure)}`
    const isFull = task.failure?.code === 'disk_full'
    if (!isFull && /ENOSPC|no space left/i.test(text)) {
      this.#violated(`task ${id} met a full disk and is ${task.status} ${task.failure?.code ?? ''}`)
    }
    if (task.status === 'succeeded') this.verdict.succeeded += 1
    else if (isFull) this.verdict.diskFull += 1
    else this.#violated(`task ${id} of ${target.name}: ${JSON.stringify(task.failure)}`)
    return task
  }

  async #serves(target: Target, version: number): Promise<void> {
    const { fixture } = this.#plan
    const text = await askProxy(fixture.proxyPort, target.environment.domain).catch(String)
    if (text === `version ${target.name}-${version}`) return
    this.#violated(`${target.name} answers '${text}' instead of version ${version}`)
  }

  /** Deploys every environment repeatedly until the number is reached. */
  async deployAll(): Promise<void> {
    const { say, deployments, payloadMiB, disk } = this.#plan
    await Promise.all(
      this.#targets.map(async (target) => {
        while (this.#left > 0) {
          this.#left -= 1
          const task = await this.#deploy(target)
          this.verdict.leastFree = Math.min(this.verdict.leastFree, disk?.freeBytes() ?? Infinity)
          if (task.status === 'succeeded') await this.#serves(target, target.version)
          const done = this.verdict.succeeded + this.verdict.diskFull
          if (done < this.#nextReport) continue
          this.#nextReport += REPORT_EACH
          say(await this.#state(done, deployments))
        }
      }),
    )
    this.verdict.built = this.verdict.succeeded * payloadMiB * MiB
    await this.#checkKept()
  }

  async #state(done: number, of: number): Promise<string> {
    const { fixture, disk } = this.#plan
    const { images, containers } = await fixture.owned()
    this.verdict.mostImages = Math.max(this.verdict.mostImages, images.length)
    const free = disk ? `, ${thousands(disk.freeBytes() / MiB)} MiB free` : ''
    return `${done} of ${of}: ${containers.length} containers, ${images.length} images${free}`
  }

  async #checkKept(): Promise<void> {
    const { fixture } = this.#plan
    const { containers, images } = await fixture.owned()
    this.verdict.mostImages = Math.max(this.verdict.mostImages, images.length)
    const count = this.#targets.length
    if (containers.length !== count) {
      this.#violated(`containers: ${containers.map(({ name }) => name).join(', ')}`)
    }
    if (images.length > KEPT_IMAGES * count) {
      this.#violated(`images: ${images.flatMap(({ tags }) => tags).join(', ')}`)
    }
  }

  /** With too little space a deployment is refused before anything changes; with space it works again. */
  async fillUp(): Promise<void> {
    const { disk } = this.#plan
    const [target] = this.#targets
    if (!disk || !target) return
    const before = target.version
    disk.fill(TOO_LITTLE)
    try {
      const task = await this.#deploy(target)
      if (task.failure?.code !== 'disk_full') this.#violated(`on a full disk: ${task.status}`)
      else this.#plan.say(`full: ${task.failure.step}: ${task.failure.message}`)
      await this.#serves(target, before)
    } finally {
      disk.fill(0)
    }
    const again = await this.#deploy(target)
    if (again.status === 'succeeded') await this.#serves(target, target.version)
  }

  async removeAll(): Promise<void> {
    const { fixture } = this.#plan
    for (const { environment, name } of this.#targets) {
      const answer = await fixture.call('DELETE', `/api/environments/${environment.id}`)
      if (answer.status >= 300) this.#violated(`removal of ${name}: ${await answer.text()}`)
    }
    const isEmpty = async (): Promise<true | undefined> =>
      (await this.#leftovers()).length === 0 || undefined
    const done = await until('the removals', isEmpty, REMOVE_MS).catch(() => false)
    if (!done) this.#violated(`left: ${(await this.#leftovers()).join(', ')}`)
  }

  /** By name and by label, named or nameless; and the agent's own folders. */
  async #leftovers(): Promise<string[]> {
    const { fixture, engine } = this.#plan
    const owned = await fixture.owned()
    const named = [
      ...owned.containers.map(({ name }) => name),
      ...owned.images.flatMap(({ tags }) => tags),
      ...owned.networks,
      ...owned.volumes,
    ]
    const ids = new Set(this.#targets.map(({ environment }) => String(environment.id)))
    const { text } = await callEngine(engine.socket, 'GET', '/images/json')
    const images = JSON.parse(text) as { Id: string; Labels: Record<string, string> | null }[]
    // each environment has its own folder, and one for git
    const prefix = join(fixture.stateDir, 'environments')
    const folders = [prefix, join(prefix, 'git')].flatMap((folder) =>
      existsSync(folder) ? readdirSync(folder).filter((name) => name !== 'git') : [],
    )
    const untagged = images
      .filter(({ Labels }) => ids.has(Labels?.['dev.berth.environment'] ?? ''))
      .filter(({ Labels }) => Labels?.['dev.berth.agent'] === this.#owner)
    return [...named, ...untagged.map(({ Id }) => Id), ...folders]
  }

  #owner: string | undefined

  /** Reads the label of our own agent from one of its containers. */
  async learnOwner(): Promise<void> {
    const { containers } = await this.#plan.fixture.owned()
    const path = `/containers/${containers[0]?.id}/json`
    const { text } = await callEngine(this.#plan.engine.socket, 'GET', path)
    const { Config } = JSON.parse(text) as { Config: { Labels: Record<string, string> } }
    this.#owner = Config.Labels['dev.berth.agent']
  }
}

export async function runDisk(plan: DiskPlan): Promise<DiskVerdict> {
  const before = await plan.foreign.snapshot()
  const run = new DiskRun(plan)
  await run.setUp()
  await run.deployAll()
  await run.learnOwner()
  await run.fillUp()
  await run.removeAll()
  const after = await plan.foreign.snapshot().catch((error: Error) => error.message)
  if (after !== before) {
    run.verdict.violations.push(`foreign things changed:\n${before}\n${after}`)
    plan.say(`VIOLATED: foreign things changed`)
  }
  return run.verdict
}
