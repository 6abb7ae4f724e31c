// Composition root of the control plane: builds the context, mounts every gateway, returns close(). Only this file
// constructs the parts; all other code receives them.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { Server } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Server as TlsServer } from 'node:tls'
import { VERSION } from '@berth/shared/version'
import { type Logger, pino } from 'pino'
import { LiveAgents } from './agents/agent-rpc.ts'
import { Transfers } from './agents/transfers.ts'
import { type AuditVerdict, openAuditChain, verifyAudit } from './app/core/audit-check.ts'
import { EVENTS_TOPIC } from './app/core/transaction.ts'
import { passDeadlines, sweep } from './app/deployments/deadlines.ts'
import { openLogs } from './app/deployments/logs.ts'
import { startRounds } from './app/forges/reconcile-rounds.ts'
import { flushRefused } from './app/forges/rejected-deliveries.ts'
import { importLegacySecret } from './app/forges/webhook-secrets.ts'
import { checkAlerts } from './app/installation/alerts.ts'
import { startBackups } from './app/installation/backups.ts'
import { continueKeyRotations } from './app/installation/data-key-rotation.ts'
import { listKekIds, openDataKeys, shareDataKeys } from './app/installation/data-keys.ts'
import { importHeldLogs, startLogImport } from './app/installation/log-import.ts'
import { openCookieSecret, openInstallation, renewSetupToken } from './app/installation/setup.ts'
import { startNotices } from './app/notices/sending.ts'
import { finishResets } from './app/people/browser-sign-in.ts'
import { resetFactorsByOperator } from './app/people/factors/factors.ts'
import { startMailing } from './app/people/mailing.ts'
import { advanceRollouts, upgradeAfterStart } from './app/servers/rollouts.ts'
import { endFormerSessions, endOrphanSessions } from './app/servers/sessions.ts'
import { ensureSshAuthorities } from './app/ssh/authorities.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import type { Context } from './context.ts'
import type { Resolve } from './forges/addresses.ts'
import { Outbound } from './forges/forges.ts'
import { type AgentGateway, openAgentGateway } from './gateways/agents/gateway.ts'
import { joinPeers } from './gateways/peers/start.ts'
import { actionRoutes } from './gateways/rest/deployments/actions.ts'
import { diagnosticsRoutes } from './gateways/rest/deployments/diagnostics.ts'
import { environmentTaskRoutes } from './gateways/rest/deployments/environment-tasks.ts'
import { lifecycleRoutes } from './gateways/rest/deployments/lifecycle.ts'
import { logRoutes } from './gateways/rest/deployments/logs.ts'
import { runtimeLogRoutes } from './gateways/rest/deployments/runtime-logs.ts'
import { serviceLogRoutes } from './gateways/rest/deployments/service-logs.ts'
import { taskRoutes } from './gateways/rest/deployments/tasks.ts'
import { backupRoutes } from './gateways/rest/environments/backups.ts'
import { environmentRoutes } from './gateways/rest/environments/environments.ts'
import { variableRoutes } from './gateways/rest/environments/variables.ts'
import { artifactRoutes } from './gateways/rest/files/artifacts.ts'
import { downloadRoutes } from './gateways/rest/files/downloads.ts'
import { forgeRoutes } from './gateways/rest/forges/connections.ts'
import { deliveryRoutes, pullRequestRoutes } from './gateways/rest/forges/webhook-deliveries.ts'
import { webhookRoutes } from './gateways/rest/forges/webhooks.ts'
import type { Api } from './gateways/rest/http/api.ts'
import { buildHttp, requireToken } from './gateways/rest/http/http.ts'
import { adminRoutes } from './gateways/rest/installation/admin.ts'
import { adminKeyRoutes, dataKeyRoutes } from './gateways/rest/installation/admin-keys.ts'
import { auditRoutes } from './gateways/rest/installation/audit.ts'
import { dashboardRoutes } from './gateways/rest/installation/dashboard.ts'
import { monitoringRoutes } from './gateways/rest/installation/monitoring.ts'
import { openRoutes } from './gateways/rest/installation/open.ts'
import { channelRoutes } from './gateways/rest/notices/channels.ts'
import { eventRoutes } from './gateways/rest/notices/events.ts'
import { authRoutes, deviceRoutes } from './gateways/rest/people/auth.ts'
import { invitationRoutes, openInvitationRoutes } from './gateways/rest/people/invitations.ts'
import { meRoutes } from './gateways/rest/people/me.ts'
import { oauthMetadataRoute, oauthRoutes } from './gateways/rest/people/oauth.ts'
import { organizationRoutes } from './gateways/rest/people/organizations.ts'
import { tokenRoutes } from './gateways/rest/people/tokens.ts'
import { projectKeyRoutes } from './gateways/rest/projects/project-keys.ts'
import { projectRoutes } from './gateways/rest/projects/projects.ts'
import { registryRoutes } from './gateways/rest/projects/registries.ts'
import { repositoryRoutes } from './gateways/rest/projects/repositories.ts'
import { projectVariableRoutes } from './gateways/rest/projects/variables.ts'
import { documentRoutes } from './gateways/rest/reference/documents.ts'
import { agentUpdateRoutes } from './gateways/rest/servers/agent-updates.ts'
import { installRoutes } from './gateways/rest/servers/install.ts'
import { serverRoutes } from './gateways/rest/servers/servers.ts'
import { sshRoutes } from './gateways/rest/ssh/certificates.ts'
import { openBrowserGateway, type Sockets } from './gateways/trpc/gateway.ts'
import { openCertificates } from './https/certificates.ts'
import { Quotas, type Sharing } from './identity/quotas.ts'
import { createIdentity } from './identity/sign-in/auth.ts'
import { WINDOW_MS } from './identity/windows.ts'
import { loadAuthority } from './keys/authority.ts'
import { createKek, type Kek, KekError, loadKek, SecretStore } from './keys/secret-store.ts'
import { SshSigners } from './keys/ssh-signers.ts'
import { ALERTS, MIGRATIONS } from './limits/installation.ts'
import { SHARED_LIMITS } from './limits/sharing.ts'
import { openMailer } from './mail/mail.ts'
import { addGauges } from './monitoring/gauges.ts'
import { Metrics } from './monitoring/metrics.ts'
import { reportEnded } from './monitoring/tasks.ts'
import { Traces } from './monitoring/traces.ts'
import { EventFeed } from './notifications/feed.ts'
import { Notifier } from './notifications/notifier.ts'
import { Watchers } from './notifications/watchers.ts'
import { holdDatabase } from './replicas/database-hold.ts'
import { Replicas } from './replicas/replicas.ts'
import { addCounts, deleteOldWindows } from './store/core/rate-limits.ts'
import { LogBlocks } from './store/deployments/log-blocks.ts'
import { LogFiles } from './store/deployments/log-files.ts'
import { type OpenDatabase, openPostgres, openSqlite } from './store/engine/database.ts'
import { DiskSpace } from './store/engine/disk-space.ts'
import type { Hold } from './store/engine/file-lock.ts'
import { migrate } from './store/engine/migrate.ts'
import { makePrivateFolder } from './store/engine/private-files.ts'
import { withBootLock } from './store/engine/session-locks.ts'

export interface ControlPlane {
  ctx: Context
  http: Api
  gateway: AgentGateway
  sockets: Sockets
  baseUrl: string
  /** With a domain: when the first look at its certificate is over, which may have failed. */
  certified: Promise<void>
  /** Printed on the console while there is no administrator; never stored in plain text. */
  setupToken: string | undefined
  close(): Promise<void>
}

interface Options {
  config: Config
  clock?: Clock
  log?: Logger
  /** Shows mail in development. Mails contain links, so this is not the log. */
  print?: (text: string) => void
  /** Resolves hostnames of forges; tests pass their own. */
  resolve?: Resolve
  /** Called when a process that needs the database alone, or a newer release, took it meanwhile: this one must end. */
  onLost?: (message: string) => void
}

const TICK_MS = 1_000
const NO_MAIL = 'BERTH_SMTP_URL is not set: password resets, invitations and alerts reach nobody'
const SWEEP_MS = 3_600_000

export async function startControlPlane(options: Options): Promise<ControlPlane> {
  const { config, log } = options
  const logger = log ?? pino({ level: config.logLevel }, pino.destination(2))
  makePrivateFolder(config.dataDir)
  const opened = openStore(config, logger)
  const replicaId = randomUUID()
  const notifier = new Notifier((error) => logger.error({ err: error }, 'a wake-up failed'))
  try {
    const { db } = opened
    const onLost = lostBy(options, logger)
    const hold = await holdDatabase({ db, config, log: logger, replicaId, notifier, onLost })
    return await startWith(options, opened, hold, logger, replicaId, notifier).catch(
      async (error) => {
        await hold.release()
        throw error
      },
    )
  } catch (error) {
    await opened.db.destroy().catch(() => undefined)
    throw error
  }
}

const lostBy =
  ({ onLost }: Options, log: Logger) =>
  (message: string): void =>
    onLost ? onLost(message) : log.fatal(message)

async function startWith(
  options: Options,
  store: OpenDatabase,
  hold: Hold,
  logger: Logger,
  replicaId: string,
  notifier: Notifier,
): Promise<ControlPlane> {
  const { config } = options
  const { db, engine } = store
  const onLost = lostBy(options, logger)
  const ctx = await withBootLock(db, engine, MIGRATIONS.otherStartMs, () =>
    openContext(options, store, logger, replicaId, notifier),
  )
  const stopSharing = engine === 'postgres' ? shareDataKeys(ctx) : undefined
  await ctx.feed.start()
  const leavePeers = await joinPeers(ctx)
  const gateway = await openAgentGateway(ctx)
  await ctx.replicas.start({
    onDeclaredDead: () =>
      gateway.moveAll('Another control plane took over while this one was cut off.'),
    onOutdated: onLost,
    onNewEra: () => gateway.moveAll('The database of this control plane went back in time.'),
    endOrphans: () => endOrphanSessions(ctx),
  })
  const http = buildHttp(ctx)
  mountRoutes(http, ctx)
  const sockets = openBrowserGateway(ctx, http)
  const bound = await http.listen({ host: config.host, port: config.port })
  ctx.baseUrl ||= bound
  const certified = ctx.certificates?.start((context) => {
    ;(http.server as Server as TlsServer).setSecureContext(context)
  })
  if (ctx.agentEndpoints.length === 0) {
    ctx.agentEndpoints = [`${new URL(ctx.baseUrl).hostname}:${gateway.port}`]
  }
  await ctx.replicas.rename({ address: ctx.baseUrl })
  await upgradeAfterStart(ctx)
  const stopTicking = startTicking(ctx)
  const stopMailing = startMailing(ctx, ctx.mailer)
  const stopNotices = startNotices(ctx)
  if (config.mail.kind === 'none') logger.warn(NO_MAIL)
  const stopRounds = await startRounds(ctx)
  const stopBackups = await startBackups(ctx)
  const stopImport = startLogImport(ctx)
  return {
    ctx,
    http,
    gateway,
    sockets,
    baseUrl: ctx.baseUrl,
    certified: certified ?? Promise.resolve(),
    setupToken: await renewSetupToken(ctx),
    async close() {
      await ctx.replicas.drain()
      if (await ctx.replicas.hasOthers()) await delay(config.noticeMs)
      const notices = stopNotices() // before its requests are broken off, so that they do not count as failed
      ctx.outbound.close() // early, so that requests to forges stop waiting
      await stopRounds()
      await stopBackups()
      await stopImport()
      await stopTicking()
      await notices
      await stopMailing()
      await sockets.close()
      await http.close()
      await ctx.certificates?.close()
      await finishResets(ctx)
      await ctx.quotas.close()
      await stopSharing?.()
      await gateway.close()
      await ctx.replicas.leave()
      await leavePeers()
      await ctx.feed.stop()
      await ctx.traces.close()
      ctx.logs.close()
      await db.destroy()
      await hold.release()
    },
  }
}

/** Everything that a start reads or makes in the database, while no other control plane starts. */
async function openContext(
  options: Options,
  store: OpenDatabase,
  logger: Logger,
  replicaId: string,
  notifier: Notifier,
): Promise<Context> {
  const { config, clock, resolve } = options
  const { db, engine } = store
  await migrate(db, engine)
  const time = clock ?? { now: () => Date.now() }
  const secretStore = await openSecretStore(config, db)
  const wrappedAgain = await openDataKeys(db, secretStore, time.now())
  if (wrappedAgain > 0)
    logger.info({ keys: wrappedAgain }, 'data keys were wrapped with the new key')
  const { installation, caKeyPem } = await openInstallation(db, secretStore, time.now())
  const authority = await loadAuthority({
    certificatePem: installation.caCertificate,
    keyPem: caKeyPem,
  })
  const ctx: Context = {
    config,
    db,
    engine,
    clock: time,
    notifier,
    watchers: new Watchers(notifier),
    agentRpc: new LiveAgents(),
    transfers: new Transfers(replicaId, db),
    peers: undefined,
    feed: new EventFeed({
      db,
      notifier,
      log: logger,
      topic: EVENTS_TOPIC,
      onRows: async (rows) => {
        if (ctx.replicas.holds('reports')) await reportEnded(ctx, rows)
      },
      onLost: () => ctx.replicas.noteLostCommits(),
    }),
    log: logger,
    metrics: new Metrics(),
    traces: new Traces(config.traces, installation.installationId, logger),
    certificates: await openCertificates({ config, authority, clock: time, log: logger }),
    installationId: installation.installationId,
    authority,
    secretStore,
    identity: createIdentity(() => ctx, await openCookieSecret(db, secretStore)),
    sshSigners: new SshSigners(secretStore),
    logs: store.copyOut
      ? new LogBlocks(db, store.copyOut)
      : new LogFiles(join(config.dataDir, 'logs')),
    diskSpace: new DiskSpace(store, config.dataDir),
    quotas: new Quotas(config, time, shareQuotas(store, logger)),
    outbound: new Outbound(config, resolve),
    mailer: openMailer(config.mail, join(config.dataDir, 'mail'), options.print ?? (() => {})),
    replicaId,
    replicas: new Replicas({
      db,
      log: logger,
      isAlone: engine === 'sqlite',
      self: {
        id: replicaId,
        host: hostname(),
        pid: process.pid,
        address: config.baseUrl || `${config.host}:${config.port}`,
        startedAt: time.now(),
        version: VERSION,
        peerAddress: null,
      },
    }),
    startedAt: time.now(),
    baseUrl: config.baseUrl,
    agentEndpoints: config.agentEndpoints,
  }
  await ctx.replicas.join()
  addGauges(ctx)
  await openAuditChain(ctx)
  await ensureSshAuthorities(ctx)
  if ((await ctx.replicas.listLive()).length <= 1) await endFormerSessions(ctx)
  await openLogs(ctx)
  await importHeldLogs(ctx)
  await importLegacySecret(ctx)
  return ctx
}

/** For the command of the same name: opens, reads and closes the database without listening. */
export async function checkAudit(config: Config): Promise<AuditVerdict> {
  const { db, engine } = openStore(config, pino({ level: 'silent' }))
  try {
    await migrate(db, engine)
    const clock = { now: () => Date.now() }
    const notifier = new Notifier(() => {})
    const secretStore = new SecretStore(loadKek(config.kekFile), openPreviousKek(config))
    return await verifyAudit({ db, engine, clock, notifier, secretStore })
  } finally {
    await db.destroy()
  }
}

/** For the command `reset-two-factor`: works while the control plane runs. */
export async function resetSecondFactor(
  config: Config,
  email: string,
): Promise<string | undefined> {
  const { db, engine } = openStore(config, pino({ level: 'silent' }))
  try {
    await migrate(db, engine)
    const clock = { now: () => Date.now() }
    const notifier = new Notifier(() => {})
    const secretStore = new SecretStore(loadKek(config.kekFile), openPreviousKek(config))
    await openDataKeys(db, secretStore, clock.now())
    const baseUrl = config.baseUrl || `http://${config.host}:${config.port}`
    return await resetFactorsByOperator(
      { db, engine, clock, notifier, secretStore, baseUrl },
      email,
    )
  } finally {
    await db.destroy()
  }
}

function openStore(config: Config, log: Logger): OpenDatabase {
  if (config.databaseUrl === undefined) return openSqlite(join(config.dataDir, 'berth.db'))
  return openPostgres(config.databaseUrl, (error) =>
    log.warn({ err: error }, 'database connection'),
  )
}

/** All control planes of one database have the same key: a new one is made only for a database without secrets. */
async function openSecretStore(config: Config, db: OpenDatabase['db']): Promise<SecretStore> {
  const { kekFile, createKek: mayCreate } = config
  const used = await listKekIds(db)
  const isNew = mayCreate && used.length === 0 && !existsSync(kekFile)
  const kek = isNew ? createKek(kekFile) : loadKek(kekFile)
  const former = openPreviousKek(config)
  const strange = used.find((id) => ![kek, ...former].some((one) => one.id === id))
  if (strange === undefined) return new SecretStore(kek, former)
  throw new KekError(
    `The secrets of this database were sealed with another key (id ${strange}) than the key file ${kekFile} holds (id ${kek.id}). Start with the key file that belongs to this database; several control planes on one database have the same one.`,
  )
}

/** SQLite has one process, whose memory is exact. */
function shareQuotas({ db, engine }: OpenDatabase, log: Logger): Sharing | undefined {
  if (engine === 'sqlite') return undefined
  const { windowMs, windows } = SHARED_LIMITS
  return {
    windows: {
      add: (added, now) =>
        addCounts(db, added, { endedBefore: now - WINDOW_MS, begunUntil: now + WINDOW_MS }),
      sweep: (now) => deleteOldWindows(db, now - windowMs, windows),
    },
    onFailed: (error) => log.debug({ err: error }, 'rate limits count for this process alone'),
  }
}

const openPreviousKek = (config: Config): Kek[] =>
  config.previousKekFile === undefined ? [] : [loadKek(config.previousKekFile)]

function mountRoutes(http: Api, ctx: Context): void {
  http.register(async (open) => openRoutes(open as Api, ctx))
  http.register(async (open) => {
    documentRoutes(open as Api, ctx)
    monitoringRoutes(open as Api, ctx)
  })
  http.register(async (open) => {
    dashboardRoutes(open as Api, ctx)
    downloadRoutes(open as Api, ctx)
  })
  http.register(async (open) => installRoutes(open as Api, ctx))
  http.register(async (open) => {
    openInvitationRoutes(open as Api, ctx)
    oauthMetadataRoute(open as Api, ctx)
    deviceRoutes(open as Api, ctx)
  })
  http.register(async (forms) => oauthRoutes(forms as Api, ctx))
  http.register(async (browsers) => authRoutes(browsers as Api, ctx))
  http.register(async (open) => webhookRoutes(open as Api, ctx))
  http.register(async (scope) => {
    const api = scope as Api
    requireToken(api, ctx)
    deliveryRoutes(api, ctx)
    pullRequestRoutes(api, ctx)
    meRoutes(api, ctx)
    organizationRoutes(api, ctx)
    invitationRoutes(api, ctx)
    tokenRoutes(api, ctx)
    adminRoutes(api, ctx)
    adminKeyRoutes(api, ctx)
    dataKeyRoutes(api, ctx)
    projectRoutes(api, ctx)
    projectKeyRoutes(api, ctx)
    environmentRoutes(api, ctx)
    environmentTaskRoutes(api, ctx)
    actionRoutes(api, ctx)
    lifecycleRoutes(api, ctx)
    backupRoutes(api, ctx)
    diagnosticsRoutes(api, ctx)
    variableRoutes(api, ctx)
    projectVariableRoutes(api, ctx)
    taskRoutes(api, ctx)
    logRoutes(api, ctx)
    serviceLogRoutes(api, ctx)
    runtimeLogRoutes(api, ctx)
    artifactRoutes(api, ctx)
    serverRoutes(api, ctx)
    agentUpdateRoutes(api, ctx)
    auditRoutes(api, ctx)
    registryRoutes(api, ctx)
    forgeRoutes(api, ctx)
    channelRoutes(api, ctx)
    eventRoutes(api, ctx)
    repositoryRoutes(api, ctx)
    sshRoutes(api, ctx)
  })
}

/** Runs deadlines each second and retention each hour, one run at a time; of several replicas, one does. */
function startTicking(ctx: Context): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let busy = false
  let swept = 0
  let alerted = 0
  const timer = setInterval(() => {
    if (busy) return
    busy = true
    running = tick()
      .catch((error: unknown) => ctx.log.error({ err: error }, 'deadlines could not be checked'))
      .finally(() => {
        busy = false
      })
  }, TICK_MS)
  async function tick(): Promise<void> {
    await flushRefused(ctx)
    if (!ctx.replicas.holds('deadlines')) return
    await passDeadlines(ctx)
    await continueKeyRotations(ctx)
    await advanceRollouts(ctx)
    if (ctx.clock.now() - alerted >= ALERTS.everyMs) {
      alerted = ctx.clock.now()
      await checkAlerts(ctx)
    }
    if (ctx.clock.now() - swept < SWEEP_MS) return
    swept = ctx.clock.now()
    await sweep(ctx)
  }
  return async () => {
    clearInterval(timer)
    await running
  }
}
