// Builds the assignments of one agent: desired state, sent completely at each session and in parts when it changes.
// Spec and secrets are sent only while the attempt has not started; secret values are read here, at the last moment.
import {
  ARTIFACTS,
  backupLocation,
  effectiveCeilings,
  knownSize,
  NO_CEILINGS,
  never,
  readCeilings,
  TASKS,
  type LifecycleVerb as Verb,
} from '@berth/shared'
import { systemVariables } from '@berth/shared/service-file'
import {
  ActionTaskSchema,
  type Assignment,
  AssignmentSchema,
  AttemptState,
  BackupPartKind,
  BackupPlace,
  BackupTaskSchema,
  DeployTaskSchema,
  Desired,
  DestroyTaskSchema,
  EnvironmentType,
  LifecycleTaskSchema,
  LifecycleVerb,
  Recipe,
  RestoreTaskSchema,
  StoredBackupSchema,
  type TaskSecrets,
  TaskSecretsSchema,
  type TaskSpec,
  TaskSpecSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { listExpired } from '../../app/environments/backups.ts'
import { readStorageForDispatch, readValuesForDispatch } from '../../app/environments/values.ts'
import { trustedLines } from '../../app/forges/repository.ts'
import type { Context } from '../../context.ts'
import { taskTimeoutMs } from '../../domain/deployments/timeouts.ts'
import type { Attempt } from '../../store/deployments/attempts.ts'
import { findTask, type Task } from '../../store/deployments/tasks.ts'
import { type Backup, findBackup, type StoredPart } from '../../store/environments/backups.ts'
import { type Environment, findEnvironment } from '../../store/environments/environments.ts'
import { listHeldHosts } from '../../store/environments/hostname-claims.ts'
import { findPullRequest } from '../../store/forges/pull-requests.ts'
import { findProject, type Project } from '../../store/projects/projects.ts'
import { findServer, type Server } from '../../store/servers/servers.ts'
import { revisionOnWire } from './edge.ts'

const needsSpec = (attempt: Attempt): boolean =>
  attempt.desired === Desired.RUNNING && attempt.state < AttemptState.STARTING

export async function makeAssignment(ctx: Context, attempt: Attempt): Promise<Assignment> {
  const assignment = create(AssignmentSchema, {
    attemptId: attempt.id,
    taskId: attempt.taskId,
    attemptNumber: attempt.number,
    environmentId: attempt.environmentId,
    fence: BigInt(attempt.fence),
    desired: attempt.desired as Assignment['desired'],
    startWithin: durationFromMs(TASKS.startWithinMs),
  })
  if (!needsSpec(attempt)) return assignment
  const task = await findTask(ctx.db, attempt.taskId)
  const environment = await findEnvironment(ctx.db, attempt.environmentId)
  const project = environment && (await findProject(ctx.db, environment.projectId))
  if (!task || !environment || !project) {
    throw new Error(`attempt ${attempt.id} has no task, environment or project`)
  }
  const number = environment.pullRequestNumber
  const pull = number === null ? undefined : await findPullRequest(ctx.db, project.id, number)
  assignment.spec = makeSpec(attempt, task, environment, project, {
    headRef: pull?.headRef ?? null,
    knownHosts: trustedLines(ctx, project),
    grantedHosts: [environment.domain, ...(await listHeldHosts(ctx.db, environment.id))],
    server: await findServer(ctx.db, task.serverId),
  })
  if (task.type === 'backup' || task.type === 'restore') {
    const { kind, secrets } = await makeDataTask(ctx, task)
    assignment.spec.kind = kind
    assignment.secrets = secrets
    return assignment
  }
  // everything else uses the values of the last deployment, which are on the server
  assignment.secrets =
    task.type === 'deploy'
      ? await makeSecrets(ctx, project, environment)
      : create(TaskSecretsSchema, {})
  return assignment
}

const VERBS: Record<Verb, LifecycleVerb> = {
  restart: LifecycleVerb.RESTART,
  stop: LifecycleVerb.STOP,
  start: LifecycleVerb.START,
}

const PLACES = { server: BackupPlace.SERVER, bucket: BackupPlace.BUCKET }
const PART_KINDS: Record<StoredPart['kind'], BackupPartKind> = {
  volume: BackupPartKind.VOLUME,
  folder: BackupPartKind.FOLDER,
  command: BackupPartKind.COMMAND,
}

const storedBackup = ({ uuid, environmentId, place, parts }: Backup) =>
  create(StoredBackupSchema, {
    backupId: uuid,
    environmentId,
    place: PLACES[place],
    parts: (parts ?? []).map(({ file, kind, name, sizeBytes, contentBytes, sha256 }) => ({
      $typeName: 'berth.agent.v1.BackupPart' as const,
      file,
      kind: PART_KINDS[kind],
      name,
      size: BigInt(sizeBytes),
      contentSize: BigInt(contentBytes),
      sha256: Buffer.from(sha256, 'hex'),
    })),
  })

/** What a backup or a restore is about, and the keys of the storage that it uses. */
async function makeDataTask(
  ctx: Context,
  task: Task,
): Promise<{ kind: TaskSpec['kind']; secrets: TaskSecrets }> {
  const backup = task.backupId === null ? undefined : await findBackup(ctx.db, task.backupId)
  if (!backup) throw new Error(`task ${task.id} has no backup`)
  const opens = task.type === 'restore'
  const storage = await readStorageForDispatch(ctx, task.organizationId, { opens })
  const expired = opens
    ? []
    : await listExpired(ctx, task, storage ? backupLocation(storage.row) : null)
  const usesBucket = [backup, ...expired].some(({ place }) => place === 'bucket')
  const secrets = create(TaskSecretsSchema, {
    ...(storage && usesBucket ? { backupStorage: onWire(storage) } : {}),
  })
  const kind: TaskSpec['kind'] = opens
    ? { case: 'restore', value: create(RestoreTaskSchema, { backup: storedBackup(backup) }) }
    : {
        case: 'backup',
        value: create(BackupTaskSchema, {
          backupId: backup.uuid,
          place: PLACES[backup.place],
          live: backup.live,
          expired: expired.map(storedBackup),
        }),
      }
  return { kind, secrets }
}

function onWire({ row, values }: NonNullable<Awaited<ReturnType<typeof readStorageForDispatch>>>) {
  const { endpoint, region, bucket, prefix, accessKeyId, recipient } = row
  return {
    $typeName: 'berth.agent.v1.BackupStorage' as const,
    endpoint,
    region,
    bucket,
    prefix,
    accessKeyId,
    recipient,
    ...values.reveal(),
  }
}

function kindOf(task: Task): TaskSpec['kind'] {
  switch (task.type) {
    case 'deploy':
      return {
        case: 'deploy',
        value: create(DeployTaskSchema, {
          noCache: task.noCache,
          fresh: task.reset,
          reuseRelease: task.reuseRelease,
        }),
      }
    case 'destroy':
      return { case: 'destroy', value: create(DestroyTaskSchema, { force: task.skipSteps }) }
    case 'action':
      return { case: 'action', value: create(ActionTaskSchema, { name: task.action ?? '' }) }
    case 'restart':
    case 'stop':
    case 'start':
      return {
        case: 'lifecycle',
        value: create(LifecycleTaskSchema, {
          verb: VERBS[task.type],
          service: task.service ?? '',
        }),
      }
    case 'backup':
    case 'restore':
      return { case: undefined } // makeDataTask
    default:
      return never(task.type)
  }
}

/** 0 means the limit that the server derives from its own size. */
function limitsOf(project: Project, server: Server | undefined) {
  const own = server ? readCeilings(server.ceilings) : NO_CEILINGS
  const most = effectiveCeilings(knownSize(server?.host), own, readCeilings(project.ceilings))
  return {
    memoryBytes: BigInt(most.memory_bytes ?? 0),
    cpuMillis: Math.round((most.cpus ?? 0) * 1_000),
    pids: most.pids ?? 0,
    diskBytes: BigInt(most.disk_bytes ?? 0),
  }
}

function makeSpec(
  attempt: Attempt,
  task: Task,
  environment: Environment,
  project: Project,
  facts: {
    headRef: string | null
    grantedHosts: string[]
    knownHosts: string[]
    server: Server | undefined
  },
): TaskSpec {
  const { headRef, grantedHosts, knownHosts } = facts
  const pullRequest = environment.type === 'pull_request'
  return create(TaskSpecSchema, {
    kind: kindOf(task),
    recipe: task.recipe === 'docker' ? Recipe.DOCKER : Recipe.MANUAL,
    repository: {
      url: project.repoUrl,
      // a fork's branch is not in this repository, and a branch may be deleted; the forge keeps the head under its own
      // ref
      ref: headRef ?? `refs/heads/${task.branch}`,
      commitSha: task.askedSha ?? '',
      knownHosts,
    },
    environment: {
      projectId: project.id,
      environmentId: environment.id,
      identifier: environment.identifier,
      type: pullRequest ? EnvironmentType.PULL_REQUEST : EnvironmentType.MANUAL,
      branch: environment.branch,
      baseDomain: project.domain,
      host: environment.domain,
      grantedHosts,
      untrusted: environment.fromFork,
      limits: limitsOf(project, facts.server),
      createdAt: timestampFromMs(environment.createdAt),
    },
    systemVariables: systemVariables(environment),
    variablesRevision: BigInt(attempt.variablesRevision),
    limits: {
      timeout: durationFromMs(taskTimeoutMs(task.type, facts.server?.settings)),
      maxArtifactFiles: ARTIFACTS.files,
      maxArtifactBytes: BigInt(ARTIFACTS.bytes),
      killGrace: durationFromMs(TASKS.killGraceMs),
      cleanup: durationFromMs(TASKS.cleanupMs),
    },
  })
}

async function makeSecrets(
  ctx: Context,
  project: Project,
  environment: Environment,
): Promise<TaskSecrets> {
  const values = (await readValuesForDispatch(ctx, project, environment)).reveal()
  return create(TaskSecretsSchema, {
    deployKey: values.deployKey,
    variables: values.variables.map((v) => ({
      $typeName: 'berth.agent.v1.Variable' as const,
      key: v.key,
      value: v.value,
    })),
    registries: values.registries.map((registry) => ({
      $typeName: 'berth.agent.v1.RegistryCredential' as const,
      ...registry,
    })),
    ...(values.basicAuth ? { basicAuth: values.basicAuth } : {}),
    edgeRevision: revisionOnWire(ctx, environment.edgeRevision),
  })
}
