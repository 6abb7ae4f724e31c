// A server of its own for one test file: state folders, a name for its accounts, repositories, and deployments driven
// by real runner processes. Nothing is shared with another run on the machine, and `close` leaves nothing behind:
// processes, accounts, cgroups, folders.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import {
  AssignmentSchema,
  Desired,
  EnvironmentType,
  Recipe,
  TaskSecretsSchema,
  type TaskSpecSchema,
} from '@berth/shared/wire'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { Cgroup, detectCgroups, listCgroups } from '../../agent/src/exec/cgroups.ts'
import { hasMarker, listProcesses } from '../../agent/src/exec/processes.ts'
import { attemptPaths } from '../../agent/src/journal/attempt-files.ts'
import { Ledger } from '../../agent/src/journal/ledger.ts'
import {
  type AgentSettings,
  attemptDir,
  compiledDir,
  readSettings,
  settingsEnvironment,
} from '../../agent/src/settings.ts'
import { instructionsOf, stopService } from '../../agent/src/supervise/control.ts'
import { dockerEngine } from '../components.ts'
import { portSlot } from '../port-slots.ts'
import { Deployment, eventually, Repository } from './deployment.ts'

export const isRoot = process.getuid?.() === 0
const PROGRAM = join(import.meta.dirname, 'agent-process.ts')

export interface DeployRequest {
  commit?: string
  ref?: string
  url?: string
  variables?: Record<string, string | Buffer>
  deployKey?: string
  knownHosts?: string[]
  environmentId?: number
  taskId?: number
  timeoutMs?: number
  killGraceMs?: number
  cleanupMs?: number
  fence?: bigint
  env?: Record<string, string>
  untrusted?: boolean
  /** Remove the environment instead; 'anyway' without the repository's steps. */
  destroy?: boolean | 'anyway'
  /** Run this action of what is deployed. */
  action?: string
  /** Remove what is there, then deploy. */
  fresh?: boolean
  recipe?: Recipe
  noCache?: boolean
  /** The environment's own host name. */
  host?: string
  grantedHosts?: string[]
  basicAuth?: { username: string; bcryptHash: string }
  limits?: { memoryBytes?: bigint }
  artifacts?: { files: number; bytes: number }
  /** Flags of the runner's Node. */
  nodeArguments?: string[]
  /** Written before the runner starts. */
  stopBefore?: string
}

export class AgentHost {
  readonly folder: string
  readonly settings: AgentSettings
  /** A Node that every account can execute. */
  readonly node: string
  readonly #children: ChildProcess[] = []
  readonly #attempts: string[] = []
  #nextTask = 1
  #nextFence = 1n

  constructor(folder = mkdtempSync(join(tmpdir(), 'berth-runner-'))) {
    this.folder = folder
    chmodSync(folder, 0o711)
    const accountPrefix = `bt${randomBytes(2).toString('hex')}-e`
    const engine = dockerEngine()
    this.settings = {
      ...readSettings({
        BERTH_STATE_DIR: join(folder, 'state'),
        BERTH_RUN_DIR: join(folder, 'run'),
        BERTH_ACCOUNT_PREFIX: accountPrefix,
        BERTH_DEV: '1',
        BERTH_TEST_GIT_FILE: '1',
        // the engine of this run, never the machine's
        DOCKER_HOST: `unix://${engine?.socket ?? '/nonexistent/docker.sock'}`,
        ...(engine ? { BERTH_NETWORK_POOL: engine.pool } : {}),
      }),
      // hosts of several test files live at once: each takes its ports from a hundred of its own
      portRange: { from: 20_000 + portSlot() * 100, to: 20_099 + portSlot() * 100 },
    }
    mkdirSync(this.settings.stateDir, { mode: 0o711 })
    mkdirSync(this.settings.runDir, { mode: 0o711 })
    this.node = join(folder, 'node')
    try {
      linkSync(process.execPath, this.node)
    } catch {
      copyFileSync(process.execPath, this.node)
    }
  }

  repository(name = 'repository'): Repository {
    return new Repository(join(this.folder, name))
  }

  ledger(): Ledger {
    return new Ledger(this.settings)
  }

  /** Starts a runner and returns at once. */
  start(repository: Pick<Repository, 'url'>, request: DeployRequest = {}): Deployment {
    const environmentId = request.environmentId ?? 1
    const taskId = request.taskId ?? this.#nextTask++
    const attemptId = randomUUID()
    // one owner a name: each environment has its own
    const own = environmentId === 1 ? 'pr-42' : `pr-42-${environmentId}`
    const hostName = request.host ?? `${own}.shop.example.com`
    this.#attempts.push(attemptId)
    const dir = attemptDir(this.settings, attemptId)
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    const assignment = create(AssignmentSchema, {
      attemptId,
      taskId,
      attemptNumber: 1,
      environmentId,
      fence: request.fence ?? this.#nextFence++,
      desired: Desired.RUNNING,
      spec: {
        kind: kindOf(request),
        recipe: request.recipe ?? Recipe.MANUAL,
        repository: {
          url: request.url ?? repository.url,
          ref: request.ref ?? 'refs/heads/main',
          commitSha: request.commit ?? '',
          knownHosts: request.knownHosts ?? [],
        },
        environment: {
          projectId: 7,
          environmentId,
          identifier: 'pr-42',
          type: EnvironmentType.PULL_REQUEST,
          branch: 'feature/ünïcode',
          host: hostName,
          grantedHosts: request.grantedHosts ?? [],
          limits: request.limits ?? {},
          untrusted: request.untrusted ?? false,
        },
        systemVariables: {
          SERVICE_DOMAIN: hostName,
          SERVICE_ENV_IDENTIFIER: 'pr-42',
          SERVICE_ENV_TYPE: 'pull_request',
          SERVICE_ENV_BRANCH: 'feature/ünïcode',
        },
        limits: {
          timeout: durationFromMs(request.timeoutMs ?? 120_000),
          killGrace: durationFromMs(request.killGraceMs ?? 2_000),
          cleanup: durationFromMs(request.cleanupMs ?? 60_000),
          maxArtifactFiles: request.artifacts?.files ?? 0,
          maxArtifactBytes: BigInt(request.artifacts?.bytes ?? 0),
        },
      },
    })
    writeFileSync(attemptPaths(dir).spec, toBinary(AssignmentSchema, assignment))
    if (request.stopBefore !== undefined) writeFileSync(attemptPaths(dir).stop, request.stopBefore)
    return new Deployment(taskId, dir, this.#spawn(dir, request))
  }

  #spawn(dir: string, request: DeployRequest): ChildProcess {
    const log = openSync(attemptPaths(dir).runnerLog, 'a')
    const child = spawn(
      process.execPath,
      [...(request.nodeArguments ?? []), PROGRAM, 'runner', dir],
      {
        env: {
          PATH: process.env.PATH,
          NODE_COMPILE_CACHE: compiledDir(this.settings),
          BERTH_ATTEMPT_ID: basename(dir),
          ...settingsEnvironment(this.settings),
          ...request.env,
        },
        stdio: ['pipe', log, log],
        detached: true,
      },
    )
    closeSync(log)
    this.#children.push(child)
    const secrets = create(TaskSecretsSchema, {
      deployKey: Buffer.from(request.deployKey ?? ''),
      ...(request.basicAuth ? { basicAuth: request.basicAuth, edgeRevision: 1n } : {}),
      variables: Object.entries(request.variables ?? {}).map(([key, value]) => ({
        key,
        value: Buffer.from(value as string),
      })),
    })
    child.stdin?.on('error', () => undefined)
    const body = toBinary(TaskSecretsSchema, secrets)
    const length = Buffer.alloc(4)
    length.writeUInt32BE(body.length)
    child.stdin?.end(Buffer.concat([length, body]))
    return child
  }

  /** Starts a runner and waits for its end. */
  async deploy(
    repository: Pick<Repository, 'url'>,
    request: DeployRequest = {},
  ): Promise<Deployment> {
    const deployment = this.start(repository, request)
    await deployment.ended
    return deployment
  }

  async close(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    }
    for (const { pid } of listProcesses()) {
      const isOurs = this.#attempts.some((id) => hasMarker(pid, `BERTH_ATTEMPT_ID=${id}`))
      if (isOurs) kill(pid)
    }
    const ledger = this.ledger()
    for (const row of ledger.listProcesses()) await stopService(this.settings, instructionsOf(row))
    ledger.close()
    // also those that a daemon of the test made
    const accounts = spawnSync('getent', ['passwd'], { encoding: 'utf8' }).stdout.split('\n')
    for (const [name = ''] of accounts.map((line) => line.split(':'))) {
      const isOurs = name.startsWith(this.settings.accountPrefix.replace(/e$/, ''))
      if (isRoot && isOurs) await endAccount(name)
    }
    for (const name of listCgroups(detectCgroups(), this.settings.accountPrefix)) {
      const group = Cgroup.create(detectCgroups(), name)
      await group?.kill()
      group?.remove()
    }
    rmSync(this.folder, { recursive: true, force: true })
  }
}

type Kind = NonNullable<MessageInitShape<typeof TaskSpecSchema>['kind']>

function kindOf(request: DeployRequest): Kind {
  if (request.action !== undefined) return { case: 'action', value: { name: request.action } }
  if (request.destroy) {
    return { case: 'destroy', value: { force: request.destroy === 'anyway' } }
  }
  const { fresh = false, noCache = false } = request
  return { case: 'deploy', value: { fresh, noCache } }
}

/** The account and everything it still runs; both may be gone already. */
async function endAccount(name: string): Promise<void> {
  await eventually(() => {
    // asked each time: once the account is gone its number may be another test's
    const uid = spawnSync('id', ['-u', name], { encoding: 'utf8' }).stdout.trim()
    if (uid === '') return true
    for (const { pid } of listProcesses()) if (ownerOf(pid) === uid) kill(pid)
    return spawnSync('userdel', [name], { stdio: 'ignore' }).status === 0
  }, `the end of account ${name}`)
}

function ownerOf(pid: number): string | undefined {
  try {
    return /^Uid:\t([0-9]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
  } catch {
    return undefined
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // gone meanwhile
  }
}
