// A lab on an engine of its own, for harnesses that run outside vitest or treat the engine badly. close() ends both.
import { mkdirSync } from 'node:fs'
import type { Environment, Task } from '@berth/shared/rest'
import { locate } from './components.ts'
import { type DockerEngine, type EngineOptions, startDockerEngine } from './docker-engine.ts'
import { makeBusyboxImage, makeNodeImage } from './docker-images.ts'
import { Lab, type LabOptions } from './lab.ts'

/** A deployment, its drain and the log of it, on a machine that is under full load. */
const DEPLOY_MS = 240_000

/** Somebody who loses patience must not leave an engine behind. */
const SIGNALS = ['SIGINT', 'SIGTERM'] as const

export interface DockerLab<T = unknown> {
  engine: DockerEngine
  lab: Lab
  /** What `prepare` gave. */
  prepared: T
  close(): Promise<void>
}

export interface DockerLabOptions<T> extends EngineOptions {
  lab?: LabOptions
  withNode?: boolean
  /** On the engine, before the agent sees it for the first time. */
  prepare?: (engine: DockerEngine) => Promise<T>
}

export async function openDockerLab<T>(options: DockerLabOptions<T> = {}): Promise<DockerLab<T>> {
  const dockerd = locate('docker')
  if (!dockerd) throw new Error('dockerd is not installed')
  if (!locate('caddy')) throw new Error('caddy is not installed')
  if (options.dataRoot) mkdirSync(options.dataRoot, { recursive: true })
  const engine = await startDockerEngine(dockerd, options)
  try {
    await makeBusyboxImage(engine.socket)
    if (options.withNode) await makeNodeImage(engine.socket)
    const prepared = (await options.prepare?.(engine)) as T
    const lab = await Lab.open({ ...options.lab, docker: engine })
    const close = (): Promise<void> => lab.close().finally(() => engine.stop())
    const interrupted = (): void => void close().finally(() => process.exit(130))
    for (const signal of SIGNALS) process.once(signal, interrupted)
    return {
      engine,
      lab,
      prepared,
      async close() {
        for (const signal of SIGNALS) process.off(signal, interrupted)
        await close()
      },
    }
  } catch (error) {
    await engine.stop()
    throw error
  }
}

/** An environment of a new project with the docker recipe. */
export async function dockerEnvironment(
  lab: Lab,
  name: string,
  files: Record<string, string>,
): Promise<Environment> {
  const project = await lab.project(name, lab.repository(name, files), 'docker')
  // a harness deploys by itself: nobody else may, who sees that the repository changed
  const body = { identifier: 'main', branch: 'main', auto_deploy: false }
  return lab.post(`/api/projects/${project.id}/environments`, body)
}

/** Deploys what the repository holds now; anything but success is an error. */
export async function deployed(lab: Lab, environmentId: number): Promise<Task> {
  const { id } = await lab.deploy(environmentId)
  const task = await lab.finished(id, DEPLOY_MS)
  if (task.status === 'succeeded') return task
  const log = (await lab.log(id)).toString().split('\n').slice(-40).join('\n')
  throw new Error(`task ${id} is ${task.status}: ${JSON.stringify(task.failure)}\n${log}`)
}
