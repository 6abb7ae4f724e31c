// Reads the configuration of the control plane from the environment, once. A bad value stops the start with a message.
import { isIP, isIPv6 } from 'node:net'
import { join, resolve } from 'node:path'
import { scheduleFault } from '@berth/shared/service-file'
import { WEBHOOKS } from './limits/forges.ts'

/** Mail goes to a mail server, to files and the console (development), or nowhere. */
export type MailConfig =
  | { kind: 'smtp'; url: string; from: string }
  | { kind: 'files' }
  | { kind: 'none' }

/** S3-compatible storage for backups. */
export interface S3Settings {
  endpoint: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

/** Backups of the control plane, made by a command or on a schedule. */
export interface BackupConfig {
  /** A folder or s3://bucket/folder. */
  to: string | undefined
  /** Five cron fields, in UTC. Unset: only commands make backups. */
  schedule: string | undefined
  /** How many stay; 0: all. */
  keep: number
  /** Older ones go; 0: any age stays. */
  keepDays: number
  passphraseFile: string | undefined
  /** Public keys of age. */
  recipients: string[]
  s3: S3Settings | undefined
}

export interface Config {
  /** Holds the database (SQLite), logs and, unless configured elsewhere, the key that encrypts secrets. */
  dataDir: string
  /** Set: PostgreSQL. Unset: SQLite in the data folder. */
  databaseUrl: string | undefined
  kekFile: string
  /** The replaced key, for the first start after a replacement: what it wraps is wrapped again. */
  previousKekFile: string | undefined
  /** Creates the key on first start; in production an administrator places it elsewhere. */
  createKek: boolean
  host: string
  port: number
  /** What users type; links are built from it. Empty: derived from the bound address. */
  baseUrl: string
  agentHost: string
  agentPort: number
  /** What agents dial, sent at enrolment. Empty: the base URL's hostname and the bound port. */
  agentEndpoints: string[]
  /** Allows repositories at file:// and loopback http:// addresses, for tests and the local example. */
  allowLocalRepositories: boolean
  mail: MailConfig
  /** Any user may create an organization; otherwise only platform administrators. */
  openOrganizations: boolean
  /** Addresses or networks of proxies whose X-Forwarded-For is trusted. None: the socket's address counts. */
  trustedProxies: string[]
  /** Multiplies the rate limits of users, for load tests and very busy installations. */
  rateLimitFactor: number
  /** Forges that may have a private address (BERTH_PRIVATE_GIT_HOSTS), in lower case. */
  privateGitHosts: string[]
  /** A forge's delivery is answered after this time, decided or not. */
  webhookAnswerMs: number
  /** The shared secret from before each project had its own; each project reads it once. */
  legacyWebhookSecret: string | undefined
  /** Addresses outside a project's domain must be on its list. */
  listedDomainsOnly: boolean
  /** Folder of packaged agents (`npm run bundle`), offered to new servers. */
  agentPackages: string
  /** The built dashboard (`npm run build:dashboard`). */
  dashboardDir: string
  backup: BackupConfig
}

function port(env: NodeJS.ProcessEnv, name: string, fallback: number): number {
  const text = env[name]
  if (text === undefined || text === '') return fallback
  const n = Number(text)
  if (Number.isInteger(n) && n >= 0 && n <= 65_535) return n
  throw new Error(`${name} must be a port from 0 to 65535, got "${text}".`)
}

function proxies(text: string): string[] {
  const list = text.split(/[\s,]+/).filter(Boolean)
  for (const one of list) {
    const [address = '', bits] = one.split('/')
    const most = isIPv6(address) ? 128 : 32
    const fits = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most)
    if (isIP(address) !== 0 && fits) continue
    throw new Error(
      `BERTH_TRUSTED_PROXY must be addresses or networks such as 10.0.0.7 or 10.0.0.0/8, got "${one}".`,
    )
  }
  return list
}

function factor(text: string): number {
  const n = Number(text)
  if (n >= 0.01 && n <= 1_000_000) return n
  throw new Error(`BERTH_RATE_LIMIT_FACTOR must be a number from 0.01 to 1000000, got "${text}".`)
}

function readMail(env: NodeJS.ProcessEnv): MailConfig {
  const { BERTH_SMTP_URL: url, BERTH_MAIL_FROM: from } = env
  if (!url) return env.BERTH_DEV === '1' ? { kind: 'files' } : { kind: 'none' }
  if (!from) {
    throw new Error('BERTH_MAIL_FROM must be set with BERTH_SMTP_URL: the address mail comes from.')
  }
  return { kind: 'smtp', url, from }
}

function count(env: NodeJS.ProcessEnv, name: string, fallback: number): number {
  const text = env[name] || String(fallback)
  if (/^\d{1,5}$/.test(text)) return Number(text)
  throw new Error(`${name} must be a number from 0 to 99999, got "${text}".`)
}

function readS3(env: NodeJS.ProcessEnv): S3Settings | undefined {
  const accessKeyId = env.BERTH_BACKUP_S3_ACCESS_KEY_ID
  const secretAccessKey = env.BERTH_BACKUP_S3_SECRET_ACCESS_KEY
  if (!accessKeyId && !secretAccessKey) return undefined
  if (!accessKeyId || !secretAccessKey) {
    throw new Error(
      'BERTH_BACKUP_S3_ACCESS_KEY_ID and BERTH_BACKUP_S3_SECRET_ACCESS_KEY must be set together.',
    )
  }
  const region = env.BERTH_BACKUP_S3_REGION || 'us-east-1'
  const endpoint = env.BERTH_BACKUP_S3_ENDPOINT || `https://s3.${region}.amazonaws.com`
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw new Error('BERTH_BACKUP_S3_ENDPOINT must be an address such as https://s3.example.com.')
  }
  return { endpoint, region, accessKeyId, secretAccessKey }
}

function readBackup(env: NodeJS.ProcessEnv): BackupConfig {
  const schedule = env.BERTH_BACKUP_SCHEDULE || undefined
  const to = env.BERTH_BACKUP_TO || undefined
  const fault = schedule && scheduleFault({ cron: schedule, timezone: 'UTC' })
  if (fault) throw new Error(`BERTH_BACKUP_SCHEDULE is "${schedule}". ${fault}`)
  if (schedule && !to) throw new Error('BERTH_BACKUP_TO must be set with BERTH_BACKUP_SCHEDULE.')
  const recipients = (env.BERTH_BACKUP_RECIPIENTS ?? '').split(/[\s,]+/).filter(Boolean)
  const passphraseFile = env.BERTH_BACKUP_PASSPHRASE_FILE || undefined
  if (passphraseFile && recipients.length > 0) {
    throw new Error(
      'Only one of BERTH_BACKUP_PASSPHRASE_FILE and BERTH_BACKUP_RECIPIENTS may be set.',
    )
  }
  return {
    to,
    schedule,
    keep: count(env, 'BERTH_BACKUP_KEEP', 14),
    keepDays: count(env, 'BERTH_BACKUP_KEEP_DAYS', 0),
    passphraseFile,
    recipients,
    s3: readS3(env),
  }
}

export function readConfig(env: NodeJS.ProcessEnv): Config {
  const dataDir = resolve(env.BERTH_DATA_DIR ?? '.data/control-plane')
  const baseUrl = (env.BERTH_URL ?? '').replace(/\/+$/, '')
  if (baseUrl !== '' && !URL.canParse(baseUrl)) {
    throw new Error(
      `BERTH_URL must be an address such as https://deploy.example.com, got "${baseUrl}".`,
    )
  }
  return {
    dataDir,
    databaseUrl: env.DATABASE_URL || undefined,
    kekFile: env.BERTH_KEK_FILE ?? join(dataDir, 'kek'),
    previousKekFile: env.BERTH_KEK_PREVIOUS_FILE || undefined,
    createKek: env.BERTH_KEK_FILE === undefined,
    host: env.BERTH_HOST ?? '127.0.0.1',
    port: port(env, 'BERTH_PORT', 7_080),
    baseUrl,
    agentHost: env.BERTH_AGENT_HOST ?? '127.0.0.1',
    agentPort: port(env, 'BERTH_AGENT_PORT', 7_443),
    agentEndpoints: (env.BERTH_AGENT_ENDPOINTS ?? '').split(',').filter(Boolean),
    allowLocalRepositories: env.BERTH_DEV === '1',
    mail: readMail(env),
    openOrganizations: env.BERTH_OPEN_ORGANIZATIONS === 'true',
    trustedProxies: proxies(env.BERTH_TRUSTED_PROXY ?? ''),
    rateLimitFactor: factor(env.BERTH_RATE_LIMIT_FACTOR ?? '1'),
    privateGitHosts: (env.BERTH_PRIVATE_GIT_HOSTS ?? '')
      .toLowerCase()
      .split(/[\s,]+/)
      .filter(Boolean),
    webhookAnswerMs: WEBHOOKS.answerMs,
    listedDomainsOnly: env.BERTH_CUSTOM_DOMAINS === 'listed',
    legacyWebhookSecret: env.BERTH_LEGACY_WEBHOOK_SECRET || undefined,
    agentPackages: env.BERTH_AGENT_PACKAGES ?? join(import.meta.dirname, '../../dist'),
    dashboardDir: resolve(
      env.BERTH_DASHBOARD_DIR ?? join(import.meta.dirname, '../../dashboard/dist'),
    ),
    backup: readBackup(env),
  }
}
