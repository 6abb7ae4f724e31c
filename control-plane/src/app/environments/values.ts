// The one reader of secret values: what the agent needs to run an attempt and to configure its edge. Only
// gateways/agents imports it (a test checks this), and calls it only while building the message.
import { Sensitive } from '@berth/shared'
import type { Context } from '../../context.ts'
import { effectiveAuth } from '../../domain/environments/basic-auth.ts'
import { effectiveVariables } from '../../domain/environments/variable-levels.ts'
import { findSealedStorage, type SealedStorage } from '../../store/environments/backups.ts'
import { listEdgeRevisions } from '../../store/environments/edge.ts'
import { type Environment, findEnvironment } from '../../store/environments/environments.ts'
import { listSealedVariables } from '../../store/environments/variables.ts'
import { findProject, type Project } from '../../store/projects/projects.ts'
import { listSealedRegistries } from '../../store/projects/registries.ts'
import { listSealedProjectVariables } from '../../store/projects/variables.ts'
import { authPlace } from '../projects/basic-auth.ts'
import { deployKeyPlace } from '../projects/projects.ts'
import { inEffect, registryPlace } from '../projects/registries.ts'
import { storageIdentityPlace, storageSecretPlace } from './backup-storage.ts'
import { projectVariablePlace, variablePlace } from './sealed-variables.ts'

interface AuthValue {
  username: string
  bcryptHash: string
}

interface DispatchValues {
  deployKey: Uint8Array
  variables: { key: string; value: Uint8Array }[]
  /** The project's own and, for other hosts, its organization's. None for an environment of a fork. */
  registries: { host: string; username: string; password: Uint8Array }[]
  /** Undefined if the environment has no Basic Auth. */
  basicAuth: AuthValue | undefined
}

export async function readValuesForDispatch(
  ctx: Context,
  project: Project,
  environment: Environment,
): Promise<Sensitive<DispatchValues>> {
  const { deployKeySealed } = project
  return new Sensitive({
    deployKey: await ctx.secretStore.open('deploy-key', deployKeyPlace(project), deployKeySealed),
    variables: await readVariables(ctx, project, environment),
    registries: environment.fromFork ? [] : await readRegistries(ctx, project),
    basicAuth: await readAuth(ctx, project, environment),
  })
}

/** Only what the environment gets is decrypted; `effectiveVariables` decides what a fork may have. */
async function readVariables(
  ctx: Context,
  project: Project,
  environment: Environment,
): Promise<DispatchValues['variables']> {
  const own = (await listSealedVariables(ctx.db, environment.id)).map((row) => ({
    ...row,
    level: 'environment' as const,
    forks: true,
  }))
  const levels = await listSealedProjectVariables(ctx.db, project.id)
  const values: DispatchValues['variables'] = []
  for (const { row } of effectiveVariables([...own, ...levels], environment).values()) {
    const { key, level, sealed } = row
    const place =
      level === 'environment'
        ? variablePlace(environment, key)
        : projectVariablePlace(project, level, key)
    values.push({ key, value: await ctx.secretStore.open('variable', place, sealed) })
  }
  return values
}

async function readRegistries(
  ctx: Context,
  project: Project,
): Promise<DispatchValues['registries']> {
  const { id: projectId, organizationId } = project
  const owner = { organizationId, projectId }
  const values: DispatchValues['registries'] = []
  for (const row of inEffect(await listSealedRegistries(ctx.db, owner), owner)) {
    const { host, username, sealed } = row
    const password = await ctx.secretStore.open('registry', registryPlace(row), sealed)
    values.push({ host, username, password })
  }
  return values
}

async function readAuth(
  ctx: Context,
  project: Project,
  environment: Environment,
): Promise<AuthValue | undefined> {
  const { username, from } = effectiveAuth(environment, project)
  const sealed = from === 'project' ? project.basicAuthHash : environment.basicAuthHash
  if (username === null || from === null || sealed === null) return undefined
  const place =
    from === 'project' ? authPlace('projects', project) : authPlace('environments', environment)
  const hash = await ctx.secretStore.open('basic-auth', place, sealed)
  return { username, bcryptHash: Buffer.from(hash).toString() }
}

interface StorageValues {
  secretAccessKey: Uint8Array
  /** Opens its backups; empty for a task that only makes one. */
  identity: Uint8Array
}

/** For a backup or a restore that uses the organization's storage; undefined: it has none. */
export async function readStorageForDispatch(
  ctx: Context,
  organizationId: number,
  { opens }: { opens: boolean },
): Promise<{ row: SealedStorage; values: Sensitive<StorageValues> } | undefined> {
  const row = await findSealedStorage(ctx.db, organizationId)
  if (!row) return undefined
  const { secretStore } = ctx
  const values = {
    secretAccessKey: await secretStore.open(
      'backup-storage',
      storageSecretPlace(row),
      row.secretSealed,
    ),
    identity: opens
      ? await secretStore.open('backup-storage', storageIdentityPlace(row), row.identitySealed)
      : new Uint8Array(),
  }
  return { row, values: new Sensitive(values) }
}

interface EdgeValue {
  environmentId: number
  revision: number
  basicAuth: AuthValue | undefined
}

/** The edge settings of a server that were not sent yet, by revision. */
export async function readEdgeForDispatch(
  ctx: Context,
  serverId: number,
  isReported: (environmentId: number, revision: number) => boolean,
): Promise<Sensitive<EdgeValue[]>> {
  const projects = new Map<number, Project | undefined>()
  const values: EdgeValue[] = []
  for (const known of await listEdgeRevisions(ctx.db, serverId)) {
    if (isReported(known.id, known.edgeRevision)) continue
    const environment = await findEnvironment(ctx.db, known.id)
    if (!environment) continue
    const { id, projectId, edgeRevision } = environment
    if (!projects.has(projectId)) projects.set(projectId, await findProject(ctx.db, projectId))
    const project = projects.get(projectId)
    if (!project) continue
    const basicAuth = await readAuth(ctx, project, environment)
    values.push({ environmentId: id, revision: edgeRevision, basicAuth })
  }
  return new Sensitive(values)
}
