// The configuration of the control plane, from the environment and server.toml (settings/), read once. A bad value stops
// the start with a message.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { WEBHOOKS } from './limits/forges.ts'
import { REPLICAS } from './limits/installation.ts'
import { type ReadSettings, readSettings } from './settings/read.ts'
import { formatValue } from './settings/setting.ts'
import type { Values } from './settings/table.ts'

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

export interface TracesConfig {
  /** Where a collector takes traces, such as http://127.0.0.1:4318/v1/traces. */
  url: string
  headers: Record<string, string>
}

/** Sign-in with an OpenID Connect provider. */
export interface OidcConfig {
  /** Without a slash at the end. */
  issuer: string
  clientId: string
  clientSecret: string
  /** On the button. */
  name: string
  /** E-mail domains that may sign in; empty: all. */
  domains: string[]
  /** Whether a person without an account gets one; otherwise an invitation is needed. */
  createsAccounts: boolean
  /** Who may still sign in with a password. */
  passwords: 'everyone' | 'administrators'
}

/** HTTPS that the control plane serves itself. */
export interface HttpsConfig {
  domain: string
  /** Sends people on to HTTPS; the authority looks there. */
  httpPort: number
  /** The ACME authority. */
  directory: string
  email: string | undefined
  /** The operator's own, in place of ACME. */
  files: { certificate: string; key: string } | undefined
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
  /** Unset: plain HTTP, behind a proxy. */
  https: HttpsConfig | undefined
  /** What users type; links are built from it. Empty: derived from the bound address. */
  baseUrl: string
  agentHost: string
  agentPort: number
  /** What agents dial, sent at enrolment. Empty: the base URL's hostname and the bound port. */
  agentEndpoints: string[]
  /** Allows repositories at file:// and loopback http:// addresses, for tests and the local example. */
  allowLocalRepositories: boolean
  /** Shows the page with every component of the dashboard. */
  isDevelopment: boolean
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
  /** One of several serves on for this long after its end was announced. */
  noticeMs: number
  /** The shared secret from before each project had its own; each project reads it once. */
  legacyWebhookSecret: string | undefined
  /** Addresses outside a project's domain must be on its list. */
  listedDomainsOnly: boolean
  /** Unset: people sign in with passwords and passkeys alone. */
  oidc: OidcConfig | undefined
  /** Opens /metrics; unset: it does not exist. */
  metricsToken: string | undefined
  /** Where traces go; unset: nowhere. */
  traces: TracesConfig | undefined
  /** Folder of packaged agents (`npm run bundle`), offered to new servers. */
  agentPackages: string
  /** Whether a new version of the control plane upgrades the agents by itself. */
  agentUpgrades: 'manual' | 'automatic'
  /** The built dashboard (`npm run build:dashboard`). */
  dashboardDir: string
  /** Of pino. */
  logLevel: string
  /** By address, like the downloads of packaged agents. */
  enrolmentsPerMinute: number
  downloadsPerMinute: number
  serversPerOrganization: number
  projectsPerOrganization: number
  backup: BackupConfig
  /** What the operator set, by variable, without secrets: for people who set up the next machine. */
  given: Record<string, string>
}

function chooseMail({ smtpUrl, mailFrom, development }: Values): MailConfig {
  if (smtpUrl !== undefined && mailFrom !== undefined) {
    return { kind: 'smtp', url: smtpUrl, from: mailFrom }
  }
  return { kind: development ? 'files' : 'none' }
}

/** Throws every problem at once, a line each. */
export const readConfig = (env: NodeJS.ProcessEnv): Config => toConfig(readSettings(env))

/** Amazon's own address where none is set. */
function chooseS3(values: Values): S3Settings | undefined {
  const {
    s3AccessKeyId: accessKeyId,
    s3SecretAccessKey: secretAccessKey,
    s3Region: region,
  } = values
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined
  const endpoint = values.s3Endpoint ?? `https://s3.${region}.amazonaws.com`
  return { endpoint, region, accessKeyId, secretAccessKey }
}

function chooseTraces({ tracesUrl: url, tracesHeaders }: Values): TracesConfig | undefined {
  if (url === undefined) return undefined
  const headers = tracesHeaders.map((one) => {
    const at = one.indexOf('=')
    return [one.slice(0, at), one.slice(at + 1)]
  })
  return { url, headers: Object.fromEntries(headers) }
}

function chooseOidc(values: Values): OidcConfig | undefined {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret } = values
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) return undefined
  return {
    issuer,
    clientId,
    clientSecret,
    name: values.oidcName,
    domains: values.oidcDomains.map((domain) => domain.toLowerCase()),
    createsAccounts: values.oidcCreateAccounts,
    passwords: values.passwordSignIn,
  }
}

/** Also those of IPv6 where the machine has it. Not by its interfaces: the unit forbids the sockets that list them. */
const everyAddress = (): string => (existsSync('/proc/net/if_inet6') ? '::' : '0.0.0.0')

/** Where it listens, and what people type. */
function chooseAddress(values: Values): Pick<Config, 'host' | 'port' | 'https' | 'baseUrl'> {
  const { domain, baseUrl } = values
  if (domain === undefined) {
    return {
      host: values.host ?? '127.0.0.1',
      port: values.port ?? 7_080,
      https: undefined,
      baseUrl,
    }
  }
  const { tlsCertificateFile: certificate, tlsKeyFile: key } = values
  const port = values.port ?? 443
  return {
    host: values.host ?? everyAddress(),
    port,
    https: {
      domain,
      httpPort: values.httpPort,
      directory: values.acmeDirectory,
      email: values.acmeEmail,
      files: certificate === undefined || key === undefined ? undefined : { certificate, key },
    },
    baseUrl: baseUrl || `https://${domain}${port === 443 ? '' : `:${port}`}`,
  }
}

const listGiven = (rows: ReadSettings['rows']): Record<string, string> =>
  Object.fromEntries(
    rows
      .filter(({ setting, source }) => !setting.secret && source.kind !== 'default')
      .map(({ setting, value }) => [setting.variable, formatValue(value)]),
  )

export function toConfig({ rows, values, problems }: ReadSettings): Config {
  if (problems.length > 0) throw new Error(problems.join('\n'))
  const dataDir = resolve(values.dataDir)
  return {
    dataDir,
    databaseUrl: values.databaseUrl,
    kekFile: values.kekFile ?? join(dataDir, 'kek'),
    previousKekFile: values.previousKekFile,
    createKek: values.kekFile === undefined,
    ...chooseAddress(values),
    agentHost: values.agentHost,
    agentPort: values.agentPort,
    agentEndpoints: values.agentEndpoints,
    allowLocalRepositories: values.development,
    isDevelopment: values.development,
    mail: chooseMail(values),
    openOrganizations: values.openOrganizations,
    trustedProxies: values.trustedProxies,
    rateLimitFactor: values.rateLimitFactor,
    privateGitHosts: values.privateGitHosts.map((host) => host.toLowerCase()),
    webhookAnswerMs: WEBHOOKS.answerMs,
    noticeMs: REPLICAS.noticeMs,
    listedDomainsOnly: values.customDomains === 'listed',
    legacyWebhookSecret: values.legacyWebhookSecret,
    oidc: chooseOidc(values),
    metricsToken: values.metricsToken,
    traces: chooseTraces(values),
    agentUpgrades: values.agentUpgrades,
    agentPackages: values.agentPackages ?? join(import.meta.dirname, '../../dist'),
    dashboardDir: resolve(values.dashboardDir ?? join(import.meta.dirname, '../../dashboard/dist')),
    logLevel: values.logLevel,
    enrolmentsPerMinute: values.enrolmentsPerMinute,
    downloadsPerMinute: values.downloadsPerMinute,
    serversPerOrganization: values.serversPerOrganization,
    projectsPerOrganization: values.projectsPerOrganization,
    backup: {
      to: values.backupTo,
      schedule: values.backupSchedule,
      keep: values.backupKeep,
      keepDays: values.backupKeepDays,
      passphraseFile: values.backupPassphraseFile,
      recipients: values.backupRecipients,
      s3: chooseS3(values),
    },
    given: listGiven(rows),
  }
}
