// A part of the run's Docker engine for one test file, with its own prefix and owner, so that several files can use one
// engine concurrently; `close` removes everything with that owner.
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { STEPS } from '@berth/shared'
import { dockerEngine } from '../../../../test/fixtures/platform/components.ts'
import { type BuildOptions, buildImage } from './build/build.ts'
import {
  type ContainerSpec,
  createContainer,
  listOwnedContainers,
  removeContainer,
  startContainer,
  waitContainer,
} from './containers.ts'
import { openEngine } from './engine.ts'
import { listOwnedImages, removeImage } from './images.ts'
import { containerName, labelsOf, networkName, shownImage } from './names.ts'
import { ensureNetwork, listOwnedNetworks, removeNetwork } from './networks.ts'
import { listOwnedVolumes, removeVolume } from './volumes.ts'

export const BASE = 'berth-test/busybox'
export type Files = Record<string, string | { link: string }>

export class DockerFixture {
  readonly settings
  readonly engine
  readonly folder = mkdtempSync(join(tmpdir(), 'berth-docker-'))
  #count = 0

  constructor() {
    const run = dockerEngine()
    if (!run) throw new Error('no Docker engine in this run')
    const name = randomBytes(4).toString('hex')
    this.settings = {
      dockerSocket: run.socket,
      networkPool: run.pool,
      owner: `test-${name}`,
      accountPrefix: `bt${name}-e`,
    }
    this.engine = openEngine(this.settings)
  }

  labels(environmentId: number): Record<string, string> {
    return labelsOf(this.settings, { environmentId })
  }

  /** Makes a folder with these files. */
  write(files: Files): string {
    this.#count += 1
    const folder = join(this.folder, String(this.#count))
    mkdirSync(folder)
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      if (typeof content === 'string') writeFileSync(join(folder, path), content)
      else symlinkSync(content.link, join(folder, path))
    }
    return folder
  }

  build(files: Files, options: Partial<BuildOptions> = {}): Promise<{ imageId: string }> {
    return buildImage(this.engine, {
      folder: this.write(files),
      dockerfile: 'Dockerfile',
      target: null,
      args: {},
      tag: shownImage(this.settings, 1, 'built', this.#count),
      labels: this.labels(1),
      noCache: false,
      ...options,
    })
  }

  /** A shell in environment 1 that runs `script`; makes the environment's network. */
  async spec(script: string, changes: Partial<ContainerSpec> = {}): Promise<ContainerSpec> {
    this.#count += 1
    const { settings } = this
    const labels = this.labels(1)
    await ensureNetwork(this.engine, settings, { environmentId: 1, labels, takenSubnets: [] })
    return {
      name: containerName(settings, 1, 'web', this.#count),
      image: BASE,
      entrypoint: null,
      command: ['/bin/sh', '-c', script],
      env: [],
      labels,
      network: networkName(settings, 1),
      aliases: ['web'],
      mounts: { file: [], volumes: [] },
      memoryBytes: 64 * 1_024 * 1_024,
      cpus: 1,
      pids: 64,
      init: true,
      stopTimeoutMs: STEPS.stopTimeoutMs,
      restart: 'no',
      untrusted: false,
      ...changes,
    }
  }

  async start(script: string, changes: Partial<ContainerSpec> = {}): Promise<string> {
    const id = await createContainer(this.engine, await this.spec(script, changes))
    await startContainer(this.engine, id)
    return id
  }

  /** Runs a container until it exits. */
  async run(script: string, changes: Partial<ContainerSpec> = {}) {
    const id = await this.start(script, changes)
    return { id, ...(await waitContainer(this.engine, id)) }
  }

  async close(): Promise<void> {
    const { engine, settings } = this
    for (const { id } of await listOwnedContainers(engine, settings)) {
      await removeContainer(engine, id)
    }
    for (const { name } of await listOwnedNetworks(engine, settings)) {
      await removeNetwork(engine, settings, name)
    }
    for (const { name } of await listOwnedVolumes(engine, settings)) {
      await removeVolume(engine, name)
    }
    for (const { id, names } of await listOwnedImages(engine, settings)) {
      for (const name of names.length > 0 ? names : [id]) await removeImage(engine, name)
    }
    rmSync(this.folder, { recursive: true, force: true })
  }
}
