// The outbox of notifications. Each transaction derives them from its events and from what it says happened, as one of
// its last steps, so exactly what was committed is sent. This file does no network work; app/notices/sending.ts empties
// the outbox. An organization without rules costs one read for each ended task.
import { randomUUID } from 'node:crypto'
import type { Happening, NoticeEnvironment } from '@berth/shared'
import type { Failure } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { type DeployedService, environmentUrl } from '../../domain/environments/environment.ts'
import { cleanLine, cleanOrNull, type Notice } from '../../domain/notices/notice.ts'
import { chooseChannels } from '../../domain/notices/rules.ts'
import { NOTICES } from '../../limits/notices.ts'
import { findNewestDeployment } from '../../store/deployments/task-history.ts'
import {
  type ChannelRule,
  holdChannels,
  listChannels,
  listRules,
} from '../../store/notices/channels.ts'
import {
  type EnvironmentFacts,
  findEnvironmentFacts,
  findNames,
  findTaskFacts,
  type TaskFacts,
} from '../../store/notices/facts.ts'
import { insertNotices, type NewNotice, skipOldest } from '../../store/notices/notices.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import type { Change, Happened } from './change.ts'

export const NOTICES_TOPIC = 'notices'

/** A happening with the words that rules may name it by, the most telling first. */
interface Found {
  words: Happening[]
  about: Omit<Happened, 'happening'>
  task?: TaskFacts
}

export const newMessageId = (): string => `msg_${randomUUID().replaceAll('-', '')}`

const TASK_MOMENTS = new Set(['task.queued', 'task.succeeded', 'task.failed'])

/** Called once, at the end of each transaction. */
export async function collectNotices(c: Change): Promise<NewNotice[]> {
  const ended = c.events.filter(({ kind, taskId }) => taskId && TASK_MOMENTS.has(kind))
  if (ended.length === 0 && c.happened.length === 0) return []
  const rules = new Map<number, ChannelRule[]>()
  const rulesOf = async (organizationId: number): Promise<ChannelRule[]> => {
    const known = rules.get(organizationId) ?? (await listRules(c.db, organizationId))
    rules.set(organizationId, known)
    return known
  }
  const found: Found[] = c.happened.map(({ happening, ...about }) => ({
    words: [happening],
    about,
  }))
  for (const { organizationId, taskId } of ended) {
    if (!taskId || (await rulesOf(organizationId)).length === 0) continue
    const one = await judgeTask(c, taskId)
    if (one) found.push(one)
  }
  const made: NewNotice[] = []
  for (const one of found) {
    const known = await rulesOf(one.about.organizationId)
    if (known.length > 0) made.push(...(await addressNotice(c, known, one)))
  }
  return made
}

export async function writeNotices(
  c: Change,
  engine: Context['engine'],
  made: NewNotice[],
): Promise<void> {
  if (made.length === 0) return
  const ids = [...new Set(made.map((row) => row.channelId))]
  // a channel may have been deleted since its rules were read
  const held = engine === 'postgres' ? await holdChannels(c.db, ids) : new Set(ids)
  await insertNotices(
    c.db,
    made.filter((row) => held.has(row.channelId)),
  )
  for (const channelId of held) {
    const error = `More than ${NOTICES.waiting} notifications waited.`
    await skipOldest(c.db, channelId, { keep: NOTICES.waiting, now: c.now, error })
  }
  c.notify(NOTICES_TOPIC)
}

async function judgeTask(c: Change, taskId: number): Promise<Found | undefined> {
  const task = await findTaskFacts(c.db, taskId)
  if (!task) return undefined
  const { organizationId, projectId, environmentId, type, status } = task
  const found = (words: Happening[], reason: string | null = null): Found => ({
    words,
    about: { organizationId, projectId, environmentId, reason },
    task,
  })
  if (status === 'failed') return found([type === 'deploy' ? 'deployment.failed' : 'task.failed'])
  if (type !== 'deploy') return undefined
  if (status === 'succeeded') {
    const before = { beforeId: task.id }
    const failed = await findNewestDeployment(c.db, environmentId, 'failed', before)
    const success = await findNewestDeployment(c.db, environmentId, 'succeeded', before)
    const isRecovery = failed !== undefined && failed.id > (success?.id ?? 0)
    return found([
      ...(isRecovery ? (['deployment.recovered'] as const) : []),
      'deployment.succeeded',
    ])
  }
  if (status !== 'queued') return undefined
  const agent = await findServerAgent(c.db, task.serverId)
  const awaySince = agent?.sessionId === null ? agent.disconnectedAt : null
  if (awaySince === null || c.now - awaySince < NOTICES.offlineMs) return undefined
  const server = await findServer(c.db, task.serverId)
  return found(
    ['deployment.waiting'],
    `The server ${cleanLine(server?.name ?? '')} is offline. The deployment starts when it is back.`,
  )
}

const typesOf = (environment: EnvironmentFacts): NoticeEnvironment[] => [
  environment.type === 'pull_request' ? 'preview' : 'manual',
  ...(environment.protected ? (['protected'] as const) : []),
]

/** One row for each channel that a rule chooses, of e-mail for each recipient. */
async function addressNotice(
  c: Change,
  rules: ChannelRule[],
  { words, about, task }: Found,
): Promise<NewNotice[]> {
  const { organizationId, projectId = null, environmentId = null } = about
  const environment =
    environmentId === null ? undefined : await findEnvironmentFacts(c.db, environmentId)
  const isPreview = about.pullRequest !== undefined
  const environmentTypes = environment
    ? typesOf(environment)
    : isPreview
      ? ['preview' as const]
      : []
  const chosen = chooseChannels(rules, { projectId, environmentTypes }, words)
  if (chosen.size === 0) return []
  const base = await describe(c, about, environment, task)
  const channels = await listChannels(c.db, organizationId)
  return channels.flatMap((channel) => {
    const happening = chosen.get(channel.id)
    if (!happening) return []
    const notice: Notice = { ...base, happening }
    const row = {
      ...newNotice(c, channel, notice),
      projectId,
      environmentId,
      taskId: task?.id ?? null,
      // the last lines of a failed step may still be on their way
      complete: task?.status === 'failed' ? (0 as const) : (1 as const),
    }
    const recipients = channel.kind === 'email' ? channel.recipients : ['']
    return recipients.map((recipient) => ({ ...row, recipient, messageId: newMessageId() }))
  })
}

export function newNotice(
  c: Pick<Change, 'now'>,
  channel: { id: number; organizationId: number; brokenAt: number | null },
  notice: Notice,
): NewNotice {
  const isBroken = channel.brokenAt !== null
  return {
    organizationId: channel.organizationId,
    channelId: channel.id,
    recipient: '',
    happening: notice.happening,
    messageId: newMessageId(),
    projectId: notice.project?.id ?? null,
    environmentId: notice.environment?.id ?? null,
    taskId: notice.task?.id ?? null,
    body: JSON.stringify(notice),
    complete: 1,
    status: isBroken ? 'skipped' : 'waiting',
    nextAt: isBroken ? null : c.now,
    error: isBroken ? 'The channel is broken.' : null,
    createdAt: c.now,
    finishedAt: isBroken ? c.now : null,
  }
}

async function describe(
  c: Change,
  { organizationId, projectId, pullRequest, server, reason }: Omit<Happened, 'happening'>,
  environment: EnvironmentFacts | undefined,
  task: TaskFacts | undefined,
): Promise<Omit<Notice, 'happening'>> {
  const names = await findNames(c.db, organizationId, projectId ?? null)
  const failure = task?.failure ? (JSON.parse(task.failure) as Failure) : null
  const clean = <T extends { name: string }>(named: T): T => ({
    ...named,
    name: cleanLine(named.name),
  })
  return {
    at: c.now,
    organization: clean(names.organization),
    project: names.project && clean(names.project),
    environment: environment
      ? {
          id: environment.id,
          identifier: cleanLine(environment.identifier),
          isPreview: environment.type === 'pull_request',
          isProtected: environment.protected === 1,
          address: environmentUrl(
            JSON.parse(environment.services) as DeployedService[],
            environment.serverHostname,
          ),
        }
      : null,
    pullRequest: pullRequest
      ? { number: pullRequest.number, title: cleanLine(pullRequest.title) }
      : null,
    server: server ? clean(server) : null,
    task: task
      ? {
          id: task.id,
          type: task.type,
          action: cleanOrNull(task.action),
          branch: cleanLine(task.branch),
          commitSha: task.commitSha,
          commitMessage: cleanOrNull(task.commitMessage),
          by: cleanLine(task.triggeredBy ?? ''),
          failedStep: cleanOrNull(failure?.step_title),
          message: cleanOrNull(failure?.message),
          errorLine: null,
        }
      : null,
    reason: cleanOrNull(reason),
  }
}
