// An engine with environments made by hand, row by row: what housekeeping is asked to tell apart. Everything carries
// names of its own; `close` removes what it made.
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildImage } from '../../agent/src/exec/docker/build.ts'
import {
  createContainer,
  removeContainer,
  startContainer,
} from '../../agent/src/exec/docker/containers.ts'
import { type Engine, openEngine } from '../../agent/src/exec/docker/engine.ts'
import { inspectImage, removeImage, tagImage } from '../../agent/src/exec/docker/images.ts'
import {
  containerName,
  hideImage,
  labelsOf,
  networkName,
  shownImage,
  volumeName,
} from '../../agent/src/exec/docker/names.ts'
import { ensureNetwork, removeNetwork } from '../../agent/src/exec/docker/networks.ts'
import { ensureVolume, removeVolume } from '../../agent/src/exec/docker/volumes.ts'
import { Ledger } from '../../agent/src/journal/ledger.ts'
import type { ObjectRow, ObjectState } from '../../agent/src/journal/objects.ts'
import type { DockerPlan, RunningContainer } from '../../agent/src/recipes/plan.ts'
import { type AgentSettings, readSettings } from '../../agent/src/settings.ts'
import { dockerEngine } from '../components.ts'
import { BUSYBOX_IMAGE } from '../docker-images.ts'

export const FENCE = 7n

export interface Making {
  state?: ObjectState
  attemptId?: string
  /** Without a row in the ledger. */
  isUnknown?: boolean
  /** With the label of another agent. */
  owner?: string
  command?: string[]
}

export class HouseLab {
  readonly folder = mkdtempSync(join(tmpdir(), 'berth-house-'))
  readonly settings: AgentSettings
  readonly engine: Engine
  readonly ledger: Ledger
  readonly #undo: (() => Promise<unknown>)[] = []

  constructor(engine = dockerEngine()) {
    const accountPrefix = `bt${randomBytes(3).toString('hex')}-e`
    this.settings = readSettings({
      BERTH_STATE_DIR: join(this.folder, 'state'),
      BERTH_RUN_DIR: join(this.folder, 'run'),
      BERTH_ACCOUNT_PREFIX: accountPrefix,
      BERTH_DEV: '1',
      BERTH_OWNER: `agent-${accountPrefix}`,
      BERTH_NETWORK_POOL: engine?.pool ?? '',
      DOCKER_HOST: `unix://${engine?.socket ?? '/nonexistent'}`,
    })
    this.engine = openEngine(this.settings)
    this.ledger = new Ledger(this.settings)
  }

  /** Another name for an image of the engine. */
  async tag(reference: string, name: string): Promise<string> {
    const full = `${this.settings.accountPrefix}${name}`
    await tagImage(this.engine, reference, full)
    this.#undo.push(() => removeImage(this.engine, full))
    return full
  }

  row(
    kind: ObjectRow['kind'],
    name: string,
    environmentId: number,
    taskId: number,
    more: Making & { service?: string; facts?: Record<string, unknown> } = {},
  ): void {
    if (more.isUnknown) return
    const { state = 'kept', attemptId = 'over', service = 'web', facts = {} } = more
    this.ledger.objects.put({ kind, name, environmentId, taskId, attemptId, service, state, facts })
  }

  #labels(environmentId: number, taskId: number, { owner, attemptId }: Making) {
    const facts = { environmentId, taskId, service: 'web', fence: FENCE, attemptId, spec: 'spec' }
    return labelsOf({ owner: owner ?? this.settings.owner }, facts)
  }

  /** An image of its own: a layer that no other one has. */
  async image(environmentId: number, taskId: number, more: Making = {}): Promise<string> {
    const tag = hideImage(shownImage(this.settings, environmentId, 'web', taskId))
    this.row('image', tag, environmentId, taskId, more)
    const folder = join(this.folder, `build-${environmentId}-${taskId}`)
    mkdirSync(folder)
    writeFileSync(join(folder, 'version'), `${environmentId} ${taskId} ${this.folder}`)
    writeFileSync(join(folder, 'Dockerfile'), `FROM ${BUSYBOX_IMAGE}\nCOPY version /version\n`)
    const { imageId } = await buildImage(this.engine, {
      folder,
      dockerfile: 'Dockerfile',
      target: null,
      args: {},
      tag,
      labels: this.#labels(environmentId, taskId, more),
      noCache: false,
      signal: new AbortController().signal,
      onStep: () => undefined,
      onText: () => undefined,
    })
    this.#undo.push(() => removeImage(this.engine, tag))
    if (!more.isUnknown)
      this.row('image', tag, environmentId, taskId, { ...more, facts: { imageId } })
    return tag
  }

  async network(environmentId: number): Promise<string> {
    const name = networkName(this.settings, environmentId)
    this.row('network', name, environmentId, 1, { service: '' })
    await ensureNetwork(this.engine, this.settings, {
      environmentId,
      labels: labelsOf(this.settings, { environmentId }),
      takenSubnets: [],
    })
    this.#undo.push(() => removeNetwork(this.engine, this.settings, name))
    return name
  }

  async volume(environmentId: number, name: string, more: Making = {}): Promise<string> {
    const full = volumeName(this.settings, environmentId, name)
    this.row('volume', full, environmentId, 1, { ...more, service: '' })
    await ensureVolume(this.engine, {
      name: full,
      labels: this.#labels(environmentId, 1, more),
    })
    this.#undo.push(() => removeVolume(this.engine, full))
    return full
  }

  /** Started; sleeps unless told otherwise. On the engine's own bridge: nobody routes to it. */
  async container(
    environmentId: number,
    taskId: number,
    image: string = BUSYBOX_IMAGE,
    more: Making & { restart?: 'no' | 'unless-stopped'; isStopped?: boolean } = {},
  ): Promise<{ name: string; id: string }> {
    const name = containerName(this.settings, environmentId, 'web', taskId)
    const facts = { stopTimeoutMs: 1_000 }
    this.row('container', name, environmentId, taskId, { state: 'serving', ...more, facts })
    const id = await createContainer(this.engine, {
      name,
      image,
      entrypoint: null,
      command: more.command ?? ['/bin/sleep', '3600'],
      env: [],
      labels: this.#labels(environmentId, taskId, more),
      network: 'bridge',
      aliases: [],
      mounts: { file: [], volumes: [] },
      memoryBytes: 64 * 1_024 ** 2,
      cpus: 1,
      pids: 64,
      init: true,
      stopTimeoutMs: 1_000,
      restart: more.restart ?? 'no',
      untrusted: false,
    })
    this.#undo.push(() => removeContainer(this.engine, id))
    if (!more.isStopped) await startContainer(this.engine, id)
    return { name, id }
  }

  /** As a deployment of one service leaves it. */
  async succeed(
    environmentId: number,
    taskId: number,
    image: string,
    more: Partial<DockerPlan> = {},
  ): Promise<DockerPlan> {
    const container = containerName(this.settings, environmentId, 'web', taskId)
    const service: RunningContainer = {
      service: 'web',
      taskId,
      containerId: '',
      container,
      imageId: (await inspectImage(this.engine, image))?.id ?? '',
      image,
      digest: '',
      spec: 'spec',
    }
    const plan: DockerPlan = {
      format: 2,
      taskId,
      commit: 'c0ffee',
      actions: [],
      section: { services: [], volumes: [] },
      services: [service],
      routes: [],
      ...more,
    }
    const body = JSON.stringify(plan)
    const stored = { environmentId, taskId, fence: FENCE, commit: plan.commit, body }
    this.ledger.saveSuccess(stored, [container])
    return plan
  }

  async close(): Promise<void> {
    for (const act of this.#undo.reverse()) await act().catch(() => undefined)
    this.ledger.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
