// Reads the configuration of the control plane from the environment, once. A bad value stops the start with a message.
import { isIP, isIPv6 } from 'node:net'
import { join, resolve } from 'node:path'
import { WEBHOOKS } from './limits/forges.ts'

/** Mail goes to a mail server, to files and the console (development), or nowhere. */
export type MailConfig =
  | { kind: 'smtp'; url: string; from: string }
  | { kind: 'files' }
  | { kind: 'none' }

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
  /** Opens /metrics; unset: it does not exist. */
  metricsToken: string | undefined
  /** Folder of packaged agents (`npm run bundle`), offered to new servers. */
  agentPackages: string
  /** The built dashboard (`npm run build:dashboard`). */
  dashboardDir: string
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

function readMetricsToken({ BERTH_METRICS_TOKEN: token }: NodeJS.ProcessEnv): string | undefined {
  if (!token) return undefined
  if (/^[\x21-\x7e]{16,200}$/.test(token)) return token
  throw new Error('BERTH_METRICS_TOKEN must have 16 to 200 characters without spaces.')
}

function readMail(env: NodeJS.ProcessEnv): MailConfig {
  const { BERTH_SMTP_URL: url, BERTH_MAIL_FROM: from } = env
  if (!url) return env.BERTH_DEV === '1' ? { kind: 'files' } : { kind: 'none' }
  if (!from) {
    throw new Error('BERTH_MAIL_FROM must be set with BERTH_SMTP_URL: the address mail comes from.')
  }
  return { kind: 'smtp', url, from }
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
    metricsToken: readMetricsToken(env),
    agentPackages: env.BERTH_AGENT_PACKAGES ?? join(import.meta.dirname, '../../dist'),
    dashboardDir: resolve(
      env.BERTH_DASHBOARD_DIR ?? join(import.meta.dirname, '../../dashboard/dist'),
    ),
  }
}
