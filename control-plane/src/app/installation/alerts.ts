// System alerts: mails the owners and admins of an organization, and the users who watch an environment, once when a
// problem begins and once when it ends. The episode is a row with a unique index, written together with the mails, so a
// restart or a second process never sends them twice. The same episodes become notifications of channels. The tick runs
// this; the rules are in domain/installation/alerts.ts.

import type { Happening } from '@berth/shared'
import type { Context } from '../../context.ts'
import { degradation } from '../../domain/environments/observation.ts'
import { type ForgeCheck, firstFailure } from '../../domain/forges/setup.ts'
import {
  judgeBackups,
  judgeCertificate,
  judgeDegraded,
  judgeDeliveries,
  judgeDisk,
  judgeForge,
  judgeOffline,
  type Turn,
  type WatchedServer,
} from '../../domain/installation/alerts.ts'
import { ALERTS } from '../../limits/installation.ts'
import * as letters from '../../mail/messages.ts'
import { listBrokenSetups } from '../../store/forges/connections.ts'
import {
  type Alert,
  findNewestDecided,
  insertAlert,
  listAlerted,
  listBackedUpEnvironments,
  listFailedDeliveries,
  listNewestCertificates,
  listOpenAlerts,
  listWatchedAgents,
  listWatchedEnvironments,
  updateAlertEnded,
  type WatchedAgent,
} from '../../store/installation/alerts.ts'
import { findProject } from '../../store/projects/projects.ts'
import { audit } from '../core/audit.ts'
import type { Change, Happened } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { queueMail } from '../people/mail.ts'
import { inStartGrace } from '../servers/servers.ts'

const BY = { type: 'system', name: 'alerts' } as const

/** Open episodes by kind and subject. An episode whose subject no longer exists ends without a mail. */
class Episodes {
  readonly #open: Map<string, Alert>

  constructor(open: Alert[]) {
    this.#open = new Map(open.map((alert) => [`${alert.kind} ${alert.subjectId}`, alert]))
  }

  take(kind: Alert['kind'], subjectId: number): Alert | undefined {
    const key = `${kind} ${subjectId}`
    const alert = this.#open.get(key)
    this.#open.delete(key)
    return alert
  }

  ofKind(kind: Alert['kind']): Alert[] {
    return [...this.#open.values()].filter((alert) => alert.kind === kind)
  }

  get left(): Alert[] {
    return [...this.#open.values()]
  }
}

export async function checkAlerts(ctx: Context): Promise<void> {
  if (inStartGrace(ctx)) return // agents need time to return
  const episodes = new Episodes(await listOpenAlerts(ctx.db))
  for (let after = 0; ; ) {
    const agents = await listWatchedAgents(ctx.db, after, ALERTS.batch)
    await checkServers(ctx, episodes, agents)
    const last = agents.at(-1)
    if (!last || agents.length < ALERTS.batch) break
    after = last.serverId
  }
  await checkEnvironments(ctx, episodes)
  await checkBackups(ctx, episodes)
  await checkDeliveries(ctx, episodes)
  await checkForges(ctx, episodes)
  for (const alert of episodes.left) await end(ctx, alert, undefined)
}

async function checkServers(
  ctx: Context,
  episodes: Episodes,
  agents: WatchedAgent[],
): Promise<void> {
  const now = ctx.clock.now()
  const certificates = await listNewestCertificates(
    ctx.db,
    agents.map((a) => a.agentId),
  )
  for (const agent of agents) {
    const certificate = certificates.get(agent.agentId)
    const watched: WatchedServer = {
      connected: agent.connected,
      paused: agent.paused,
      awaySince: agent.awaySince,
      diskBytes: agent.host?.diskBytes ?? null,
      diskFreeBytes: agent.diskFreeBytes ?? agent.host?.diskFreeBytes ?? null,
      certificate,
    }
    const { serverId, organizationId, serverName: server } = agent
    const url = `${ctx.baseUrl}/servers/${serverId}`
    const about = { organizationId, subjectId: serverId, server: { id: serverId, name: server } }
    const look = (
      kind: Alert['kind'],
      judge: (isOpen: boolean) => Turn,
      begun: () => letters.LetterText,
      ended: (alert: Alert) => letters.LetterText,
    ) => follow(ctx, episodes.take(kind, serverId), { ...about, kind }, judge, begun, ended)
    await look(
      'server_offline',
      (isOpen) => judgeOffline(isOpen, watched, now),
      () => letters.offlineLetter({ server, forMs: now - watched.awaySince, url }),
      ({ begunAt }) =>
        letters.onlineLetter({ server, forMs: now - begunAt + ALERTS.serverOfflineMs, url }),
    )
    const freeBytes = watched.diskFreeBytes ?? 0
    await look(
      'disk_full',
      (isOpen) => judgeDisk(isOpen, watched),
      () => letters.diskLetter({ server, freeBytes, diskBytes: watched.diskBytes ?? 0, url }),
      () => letters.diskRecoveredLetter({ server, freeBytes, url }),
    )
    await look(
      'certificate',
      (isOpen) => judgeCertificate(isOpen, watched, now),
      () => letters.certificateLetter({ server, endsAt: certificate?.notAfter ?? now, url }),
      () => letters.certificateRenewedLetter({ server, url }),
    )
  }
}

async function checkEnvironments(ctx: Context, episodes: Episodes): Promise<void> {
  for (let after = 0; ; ) {
    const environments = await listWatchedEnvironments(ctx.db, after, ALERTS.batch)
    for (const found of environments) {
      const { id, identifier: environment, projectName: project, organizationId } = found
      const reason = degradation(found)
      const about = { environment, project, url: `${ctx.baseUrl}/environments/${id}` }
      await follow(
        ctx,
        episodes.take('degraded', id),
        { organizationId, kind: 'degraded', subjectId: id, projectId: found.projectId },
        (isOpen) => judgeDegraded(isOpen, reason),
        () => letters.degradedLetter({ ...about, reason: reason ?? '' }),
        () => letters.recoveredLetter(about),
      )
    }
    const last = environments.at(-1)
    if (!last || environments.length < ALERTS.batch) return
    after = last.id
  }
}

/** Scheduled ones; who makes a backup by hand sees its result. A schedule that was removed ends its episode silently. */
async function checkBackups(ctx: Context, episodes: Episodes): Promise<void> {
  for (let after = 0; ; ) {
    const environments = await listBackedUpEnvironments(ctx.db, after, ALERTS.batch)
    for (const { id, organizationId, newest, ...found } of environments) {
      const about = {
        environment: found.identifier,
        project: found.projectName,
        url: `${ctx.baseUrl}/environments/${id}/backups`,
      }
      const failure = newest?.failure ? (JSON.parse(newest.failure) as { message: string }) : null
      await follow(
        ctx,
        episodes.take('backup', id),
        { organizationId, kind: 'backup', subjectId: id },
        (isOpen) => judgeBackups(isOpen, newest?.status),
        () => letters.dataBackupFailedLetter({ ...about, reason: failure?.message ?? '' }),
        () => letters.dataBackupRecoveredLetter(about),
      )
    }
    const last = environments.at(-1)
    if (!last || environments.length < ALERTS.batch) return
    after = last.id
  }
}

/** Sends one mail for a project with failing deliveries, however many fail; recovery needs no mail. */
async function checkDeliveries(ctx: Context, episodes: Episodes): Promise<void> {
  const since = ctx.clock.now() - ALERTS.deliveryMs
  for (const failed of await listFailedDeliveries(ctx.db, since, ALERTS.batch)) {
    const { projectId, projectName: project, organizationId, event, reason } = failed
    const open = episodes.take('delivery', projectId)
    const newest = await findNewestDecided(ctx.db, projectId)
    const url = `${ctx.baseUrl}/projects/${projectId}/webhooks`
    await follow(
      ctx,
      open,
      { organizationId, kind: 'delivery', subjectId: projectId },
      (isOpen) => judgeDeliveries(isOpen, newest),
      () => letters.deliveryLetter({ project, event, reason, url }),
      () => undefined,
    )
  }
  for (const alert of episodes.ofKind('delivery')) {
    episodes.take('delivery', alert.subjectId)
    const newest = await findNewestDecided(ctx.db, alert.subjectId)
    if (judgeDeliveries(true, newest) === 'end') await end(ctx, alert, undefined)
  }
}

async function checkForges(ctx: Context, episodes: Episodes): Promise<void> {
  for (let after = 0; ; ) {
    const setups = await listBrokenSetups(ctx.db, after, ALERTS.batch)
    for (const {
      projectId,
      projectName: project,
      organizationId,
      repository,
      ...setup
    } of setups) {
      const checks = JSON.parse(setup.checks) as ForgeCheck[]
      const url = `${ctx.baseUrl}/projects/${projectId}/settings`
      await follow(
        ctx,
        episodes.take('forge', projectId),
        { organizationId, kind: 'forge', subjectId: projectId },
        (isOpen) => judgeForge(isOpen, true),
        () => letters.forgeLetter({ project, repository, reason: firstFailure(checks), url }),
        () => undefined,
      )
    }
    const last = setups.at(-1)
    if (!last || setups.length < ALERTS.batch) break
    after = last.projectId
  }
  for (const alert of episodes.ofKind('forge')) {
    episodes.take('forge', alert.subjectId)
    const project = await findProject(ctx.db, alert.subjectId)
    const url = `${ctx.baseUrl}/projects/${alert.subjectId}/settings`
    const isConnected = project !== undefined && project.forgeConnectionId !== null
    const letter = isConnected
      ? letters.forgeRecoveredLetter({ project: project.name, url })
      : undefined
    await end(ctx, alert, letter)
  }
}

/** What an episode is about, with what its notifications need. */
interface AlertSubject extends Pick<Alert, 'organizationId' | 'kind' | 'subjectId'> {
  server?: { id: number; name: string }
  /** Of an environment. */
  projectId?: number
}

async function follow(
  ctx: Context,
  open: Alert | undefined,
  about: AlertSubject,
  judge: (isOpen: boolean) => Turn,
  begun: () => letters.LetterText,
  ended: (alert: Alert) => letters.LetterText | undefined,
): Promise<void> {
  const turn = judge(open !== undefined)
  if (turn === 'end' && open) await end(ctx, { ...open, ...about }, ended(open))
  if (turn !== 'begin') return
  const { organizationId, kind, subjectId } = about
  await change(ctx, async (c) => {
    if (!(await insertAlert(c.db, { organizationId, kind, subjectId, begunAt: c.now }))) return
    await report(ctx, c, about, 'begin', begun())
  })
}

async function end(
  ctx: Context,
  alert: Alert & AlertSubject,
  letter: letters.LetterText | undefined,
): Promise<void> {
  await change(ctx, async (c) => {
    if (await updateAlertEnded(c.db, alert.id, c.now)) await report(ctx, c, alert, 'end', letter)
  })
}

const NOUNS: Record<Alert['kind'], 'project' | 'server' | 'environment'> = {
  server_offline: 'server',
  disk_full: 'server',
  certificate: 'server',
  delivery: 'project',
  forge: 'project',
  degraded: 'environment',
  backup: 'environment',
}

const HAPPENINGS: Partial<Record<Alert['kind'], Record<'begin' | 'end', Happening>>> = {
  server_offline: { begin: 'server.offline', end: 'server.online' },
  disk_full: { begin: 'server.problem', end: 'server.problem' },
  certificate: { begin: 'server.problem', end: 'server.problem' },
  degraded: { begin: 'environment.degraded', end: 'environment.recovered' },
}

/** Of an environment the subject repeats its name, so only the reason is told; of a server it is the news. */
const happenedOf = (
  { organizationId, projectId, server, subjectId }: AlertSubject,
  happening: Happening,
  { subject, reason }: letters.LetterText,
): Happened =>
  server
    ? { organizationId, happening, server, reason: `${subject}.` }
    : {
        organizationId,
        happening,
        environmentId: subjectId,
        reason: reason ?? null,
        ...(projectId === undefined ? {} : { projectId }),
      }

async function report(
  ctx: Context,
  c: Change,
  about: AlertSubject,
  what: 'begin' | 'end',
  letter: letters.LetterText | undefined,
): Promise<void> {
  const { organizationId, kind, subjectId } = about
  const noun = NOUNS[kind]
  const projectId = noun === 'project' ? subjectId : null
  await audit(c, BY, organizationId, `alert.${what}`, [noun, subjectId], { kind })
  // that it is degraded, or a task of it failed, was an event of the environment already
  if (noun !== 'environment') {
    emit(c, { organizationId, projectId }, `${noun}.updated`, { id: subjectId, alert: kind, what })
  }
  if (!letter) return
  const happening = HAPPENINGS[kind]?.[what]
  if (happening) c.happened.push(happenedOf(about, happening, letter))
  const environmentId = noun === 'environment' ? subjectId : null
  const ofServices = kind === 'degraded'
  for (const { email } of await listAlerted(c.db, organizationId, environmentId, { ofServices })) {
    await queueMail(ctx, c, { kind: 'alert', to: email, ...letter })
  }
}
