// A control plane with an agent, and a repository host on loopback that holds a real git repository: what tests of
// reconcile and of reports to the host need. `step` lets rounds and reports happen now, without waiting for a clock.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment, ProjectDetail, Task } from '@berth/shared/rest'
import { sendHostReports } from '../control-plane/src/app/host-report-sending.ts'
import { reconcileProject } from '../control-plane/src/app/reconcile.ts'
import type { Context } from '../control-plane/src/context.ts'
import type { Answer, TestControlPlane } from './control-plane.ts'
import type { EngineName } from './engines.ts'
import { FakeHost, type FakeKind } from './fake-host.ts'
import { Platform } from './platform.ts'
import { Repository } from './real/deployment.ts'

export class RepositoryLab {
  readonly #root: string
  #pushes = 0 // equal commits of one second are one commit
  readonly repository: Repository
  readonly platform: Platform
  readonly host: FakeHost
  projectId = 0

  private constructor(platform: Platform, host: FakeHost, repository: Repository, root: string) {
    this.platform = platform
    this.host = host
    this.repository = repository
    this.#root = root
  }

  static async start(engine: EngineName, kind: FakeKind = 'gitea'): Promise<RepositoryLab> {
    const root = mkdtempSync(join(tmpdir(), 'berth-repos-'))
    const repository = new Repository(join(root, 'acme', 'shop.git'))
    repository.commit({ '.service.yml': 'manual: { deploy: [ "true" ] }\n' }, 'First')
    const platform = await Platform.start(engine)
    const host = await FakeHost.start(kind, root)
    const lab = new RepositoryLab(platform, host, repository, root)
    const project = await lab.cp.project('webshop', platform.serverId, { repo_url: host.repoUrl })
    lab.projectId = project.id
    return lab
  }

  get cp(): TestControlPlane {
    return this.platform.cp
  }

  get ctx(): Context {
    return this.cp.running.ctx
  }

  head(branch = 'main'): string {
    return this.repository.git('rev-parse', branch)
  }

  /** A commit on a branch, made from main when there is no such branch. */
  push(branch: string, subject?: string): string {
    this.#pushes += 1
    const { repository } = this
    const isThere = repository.git('branch', '--list', branch) !== ''
    repository.git('switch', '--quiet', ...(isThere ? [branch] : ['-c', branch, 'main']))
    const sha = repository.commit({}, subject ?? `Change ${this.#pushes} of ${branch}`)
    repository.git('switch', '--quiet', 'main')
    return sha
  }

  deleteBranch(branch: string): void {
    this.repository.git('branch', '--quiet', '-D', branch)
  }

  setToken(token = this.host.token): Promise<Answer> {
    return this.cp.call('PUT', `/api/projects/${this.projectId}/host_token`, { token })
  }

  async project(): Promise<ProjectDetail> {
    return (await this.cp.call<ProjectDetail>('GET', `/api/projects/${this.projectId}`)).body
  }

  environment(identifier: string, over: object = {}): Promise<Environment> {
    return this.cp.environment(this.projectId, identifier, over)
  }

  async environments(): Promise<Environment[]> {
    const path = `/api/projects/${this.projectId}/environments`
    return (await this.cp.call<Environment[]>('GET', path)).body
  }

  async tasks(environmentId: number): Promise<Task[]> {
    const path = `/api/environments/${environmentId}/tasks?type=all`
    return (await this.cp.call<Task[]>('GET', path)).body
  }

  async deployAndSettle(environmentId: number, sha?: string): Promise<Task> {
    const body = sha ? { commit_sha: sha } : undefined
    const started = await this.platform.deploy(environmentId, body)
    if (started.status !== 201) throw new Error(started.text)
    return this.platform.settled(started.body.id)
  }

  /** One round, now. */
  reconcile(): Promise<unknown> {
    return reconcileProject(this.ctx, this.projectId)
  }

  /** Everything due goes out, now. */
  report(): Promise<void> {
    return sendHostReports(this.ctx)
  }

  async close(): Promise<void> {
    await this.platform.close()
    await this.host.close()
    rmSync(this.#root, { recursive: true, force: true })
  }
}
