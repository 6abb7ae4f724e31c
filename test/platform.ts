// The whole system in one process: a control plane and an agent's daemon over real HTTP and real mutual TLS, either
// database, a clock that can be moved, and a scripted executor in place of runners. Tests drain, they do not sleep.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import type { Environment, Task } from '@berth/shared/rest'
import { type RunningAgent, startAgent } from '../agent/src/agent.ts'
import { join } from '../agent/src/link/join.ts'
import { type AgentSettings, readSettings } from '../agent/src/settings.ts'
import { type Answer, type Outside, TestControlPlane } from './control-plane.ts'
import type { EngineName } from './engines.ts'
import { until } from './lab.ts'
import { ScriptedExecutor } from './scripted-executor.ts'

export class Platform {
  readonly cp: TestControlPlane
  readonly executor = new ScriptedExecutor()
  readonly #dir = mkdtempSync(joinPath(tmpdir(), 'berth-agent-'))
  readonly #settings: AgentSettings
  #agent: RunningAgent | undefined
  serverId = 0
  projectId = 0

  private constructor(cp: TestControlPlane) {
    this.cp = cp
    const noEngine = 'unix:///nonexistent/docker.sock' // never the machine's own
    this.#settings = readSettings({
      BERTH_STATE_DIR: this.#dir,
      BERTH_DEV: '1',
      DOCKER_HOST: noEngine,
    })
  }

  /** The agent's folder. */
  get agentDir(): string {
    return this.#dir
  }

  static async start(engine: EngineName, outside: Outside = {}): Promise<Platform> {
    const platform = await Platform.bare(engine, outside)
    const { cp } = platform
    await cp.setUp()
    platform.serverId = (await cp.server()).id
    platform.projectId = (await cp.project('shop', platform.serverId)).id
    const token = await cp.joinToken(platform.serverId)
    await platform.joinAgent(token)
    return platform
  }

  /** Nothing set up yet, no server, no agent. */
  static async bare(engine: EngineName, outside: Outside = {}): Promise<Platform> {
    return new Platform(await TestControlPlane.start(engine, outside))
  }

  async joinAgent(token: string): Promise<void> {
    await join(this.#settings, { url: this.cp.url, token, force: false })
    await this.startAgent()
  }

  async startAgent(): Promise<void> {
    this.#agent = await startAgent(this.#settings, { executor: this.executor })
    await this.#agent.reached('active')
  }

  /** As `kill -9` of the daemon. */
  killAgent(): void {
    this.#agent?.kill()
    this.#agent = undefined
  }

  /** The control plane stops and starts again; the agent finds its way back. */
  async restartControlPlane(): Promise<void> {
    await this.cp.restart()
    await this.online()
  }

  online(): Promise<true> {
    return until('the agent', async () => {
      const server = await this.cp.call('GET', `/api/servers/${this.serverId}`)
      return server.body.status === 'online' ? (true as const) : undefined
    })
  }

  environment(identifier: string, over: object = {}): Promise<Environment> {
    return this.cp.environment(this.projectId, identifier, over)
  }

  deploy(environmentId: number, body?: unknown): Promise<Answer<Task>> {
    return this.cp.call<Task>('POST', `/api/environments/${environmentId}/tasks`, body)
  }

  async task(id: number): Promise<Task> {
    return (await this.cp.call<Task>('GET', `/api/tasks/${id}`)).body
  }

  /** The task when it is over and its log is whole. */
  settled(id: number): Promise<Task> {
    return until(`task ${id} to settle`, async () => {
      if (this.executor.errors.length > 0) throw this.executor.errors[0]
      const task = await this.task(id)
      return task.finished_at !== null && task.log_complete ? task : undefined
    })
  }

  async log(id: number, query = ''): Promise<string> {
    return (await this.cp.call('GET', `/api/tasks/${id}/log${query}`)).text
  }

  async close(): Promise<void> {
    await this.#agent?.close()
    await this.cp.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }
}
