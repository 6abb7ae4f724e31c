// berth backup create, list and restore: copies of the data of an environment. A restore replaces data, so it is
// confirmed like a removal.
import { randomUUID } from 'node:crypto'
import {
  Backup,
  type BackupCreate,
  type BackupRestore,
  Environment,
  ProjectDetail,
  Task,
} from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findProject, findTarget, type Target, targetName } from '../../client/resolve.ts'
import type { Finished } from '../../client/wait.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, formatBytes } from '../../terminal/format.ts'
import type { CellLike } from '../../terminal/terminal.ts'
import {
  explainRefusal,
  finishStart,
  flagsOf,
  parseWait,
  type WaitChoice,
} from '../deployments/deploy.ts'
import { confirmName } from '../prompt.ts'

interface CreateOptions {
  body: BackupCreate
  wait: WaitChoice | null
}

function parseCreate(invocation: Invocation): CreateOptions {
  const { flags } = invocation
  const to = flagText(flags, 'to') as BackupCreate['place']
  const message = flagText(flags, 'message')
  return {
    body: {
      ...(flagOn(flags, 'live') ? { live: true } : {}),
      ...(to === undefined ? {} : { place: to }),
      ...(message === undefined ? {} : { message }),
    },
    wait: parseWait(invocation, flagOn(flags, 'wait')),
  }
}

function explain(error: unknown, target: Target, type: 'backup' | 'restore', now: number): unknown {
  if (!(error instanceof ApiFailure)) return error
  const flags = flagsOf(target)
  if (error.code === 'not_deployed') {
    return new CliError(EXIT.refused, error.message, `berth deploy ${flags} --wait`)
  }
  const verb = type === 'backup' ? 'back it up' : 'replace its data'
  const list = `berth tasks ${flags} --type ${type}`
  return explainRefusal(error, target, now, { noun: `the ${type}`, verb, list })
}

async function post(api: Api, path: string, body: object): Promise<Finished> {
  const asked = { body, idempotencyKey: randomUUID(), expect: 201 } as const
  const { value: task, raw } = await api.post(path, Task, asked)
  return { task, raw }
}

async function performCreate({ body, wait }: CreateOptions, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  let started: Finished
  try {
    started = await post(api, `/api/environments/${target.environment.id}/backups`, body)
  } catch (error) {
    throw explain(error, target, 'backup', context.io.now())
  }
  return finishStart(context, api, target, started, wait)
}

export const backupCreate = compose(parseCreate, performCreate)

const STYLES = { creating: 'yellow', failed: 'red' } as const

function statusCell({ status }: Backup): CellLike {
  return status === 'complete' ? status : { text: status, style: STYLES[status] }
}

const placeText = ({ place, location }: Backup): string =>
  place === 'server' ? 'server' : (location ?? 'bucket')

const partsText = ({ parts }: Backup): string => parts.map(({ name }) => name).join(', ') || '-'

async function performList(isForAll: boolean, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const target = isForAll ? undefined : await findTarget(api, context, 'read')
  const project = target?.project ?? (await findProject(api, context, 'read'))
  const path = target
    ? `/api/environments/${target.environment.id}/backups`
    : `/api/projects/${project.id}/backups`
  const { items, raw } = await api.list(path, Backup)
  await screen.printList({
    rows: items,
    raw,
    header: ['ID', 'ENV', 'STATUS', 'MADE', 'SIZE', 'HAS', 'WHERE'],
    human: (backup) => [
      { text: String(backup.id), style: 'bold' },
      backup.environment,
      statusCell(backup),
      formatAgo(backup.created_at, io.now()),
      backup.status === 'complete' ? formatBytes(backup.size_bytes) : '-',
      partsText(backup),
      { text: placeText(backup), reaches: true },
    ],
    plain: (backup) => [
      String(backup.id),
      backup.environment,
      backup.status,
      backup.created_at,
      String(backup.size_bytes),
      backup.parts.map(({ name }) => name).join(','),
      placeText(backup),
      String(backup.task_id),
    ],
    empty: target
      ? `No backups of ${targetName(target)} yet: berth backup create ${flagsOf(target)}`
      : `No backups of ${project.name} yet.`,
  })
  return EXIT.done
}

export const backupList = compose(({ flags }: Invocation) => flagOn(flags, 'all'), performList)

interface RestoreOptions {
  id: number
  confirm: string | undefined
  message: string | undefined
  wait: WaitChoice | null
}

function parseRestore(invocation: Invocation): RestoreOptions {
  const { flags, args } = invocation
  const id = Number(args[0])
  if (!Number.isSafeInteger(id) || id < 1) {
    throw usage('ID is not the id of a backup', 'berth backup list shows them')
  }
  return {
    id,
    confirm: flagText(flags, 'confirm'),
    message: flagText(flags, 'message'),
    wait: parseWait(invocation, flagOn(flags, 'wait')),
  }
}

/** With -e another environment; without it the one that the backup was made of. */
async function findDestination(api: Api, context: Context, backup: Backup): Promise<Target> {
  if (context.globals.env) return findTarget(api, context, 'change')
  const path = `/api/environments/${backup.environment_id}`
  const environment = await api.get(path, Environment).catch((error: unknown) => {
    if (!(error instanceof ApiFailure && error.code === 'not_found')) throw error
    const message = `${backup.environment}, of which backup ${backup.id} was made, is removed`
    throw new CliError(EXIT.notFound, message, 'name another environment with -e ENV')
  })
  const project = await api.get(`/api/projects/${backup.project_id}`, ProjectDetail)
  return { project: project.value, environment: environment.value }
}

async function performRestore(options: RestoreOptions, context: Context): Promise<ExitCode> {
  const { io } = context
  const api = await context.connect()
  const { value: backup } = await api.get(`/api/backups/${options.id}`, Backup)
  const target = await findDestination(api, context, backup)
  const { identifier, id } = target.environment
  const from = backup.environment_id === id ? '' : ` of ${backup.environment}`
  const made = formatAgo(backup.created_at, io.now())
  const what = `this replaces the data of ${targetName(target)} by backup ${backup.id}${from}, made ${made}, and restarts its services`
  const confirm = await confirmName(context, options.confirm, identifier, what)
  // --yes does not override protection, which requires the name
  const isNamed = options.confirm !== undefined || !context.globals.yes
  const isProtected = target.environment.protected && !isNamed
  const body: BackupRestore = {
    environment_id: id,
    ...(isProtected ? {} : { confirm }),
    ...(options.message === undefined ? {} : { message: options.message }),
  }
  let started: Finished
  try {
    started = await post(api, `/api/backups/${backup.id}/restore`, body)
  } catch (error) {
    throw explain(error, target, 'restore', io.now())
  }
  return finishStart(context, api, target, started, options.wait)
}

export const backupRestore = compose(parseRestore, performRestore)
