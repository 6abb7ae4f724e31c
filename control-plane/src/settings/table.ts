// Every setting of the control plane, once: the start, `berth-server config check` and docs/operations/settings.md read
// this table. To add one, add a row here, a field of Config, and its use.
import { isIP } from 'node:net'
import { scheduleFault } from '@berth/shared/service-file'
import { FLEET } from '../limits/installation.ts'
import { checkSender, checkSmtpUrl } from '../mail/smtp-url.ts'
import {
  choice,
  flag,
  form,
  isEndpoint,
  isNetwork,
  list,
  number,
  optional,
  path,
  port,
  type Setting,
  text,
  webAddress,
  withDefault,
} from './setting.ts'

const most = number(1, 1_000_000)

/** By the name of the field in Config where there is one. */
export const SETTINGS = {
  baseUrl: withDefault(webAddress, '', {
    variable: 'BERTH_URL',
    key: 'url',
    without: 'the address where it listens',
    description: 'The address that people use, also in links and join commands.',
  }),
  dataDir: withDefault(path, '.data/control-plane', {
    variable: 'BERTH_DATA_DIR',
    key: 'data_dir',
    description: 'The folder of the database (SQLite), the logs and the key.',
  }),
  domain: optional(form('domain name', checkDomain), {
    variable: 'BERTH_DOMAIN',
    key: 'domain',
    without: 'none, a proxy serves HTTPS',
    description:
      'The name under which the control plane itself serves HTTPS, with certificates from ACME.',
  }),
  host: optional(text, {
    variable: 'BERTH_HOST',
    key: 'host',
    without: '127.0.0.1; with a domain, every address',
    description: 'The address of this machine where REST and the dashboard listen.',
  }),
  port: optional(port, {
    variable: 'BERTH_PORT',
    key: 'port',
    without: '7080; with a domain, 443',
    description: 'The port of REST and the dashboard.',
  }),
  trustedProxies: withDefault(
    list(
      'list of addresses and networks',
      'addresses or networks such as 10.0.0.7 or 10.0.0.0/8',
      isNetwork,
    ),
    [],
    {
      variable: 'BERTH_TRUSTED_PROXY',
      key: 'trusted_proxies',
      without: 'none, the address of the connection counts',
      description: 'Proxies whose `X-Forwarded-For` is trusted.',
    },
  ),
  logLevel: withDefault(
    choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    'info',
    {
      variable: 'BERTH_LOG',
      key: 'log',
      description: 'The least important messages that are logged.',
    },
  ),
  openOrganizations: withDefault(flag, false, {
    variable: 'BERTH_OPEN_ORGANIZATIONS',
    key: 'open_organizations',
    without: 'false, only platform administrators may',
    description: 'Everyone with an account may create an organization.',
  }),
  customDomains: withDefault(choice('any', 'listed'), 'any', {
    variable: 'BERTH_CUSTOM_DOMAINS',
    key: 'custom_domains',
    description: 'With `listed`, domains outside of a project’s own must be on its list.',
  }),
  privateGitHosts: withDefault(list('list of host names', 'host names'), [], {
    variable: 'BERTH_PRIVATE_GIT_HOSTS',
    key: 'private_git_hosts',
    description: 'Forges that may have a private address.',
  }),
  dashboardDir: optional(path, {
    variable: 'BERTH_DASHBOARD_DIR',
    key: 'dashboard_dir',
    without: '`dashboard/dist` of the checkout',
    description: 'The folder of the built dashboard.',
  }),
  databaseUrl: optional(form('PostgreSQL address', checkDatabaseUrl), {
    variable: 'DATABASE_URL',
    key: 'database.url',
    without: 'SQLite in the data folder',
    description: 'PostgreSQL in place of SQLite: `postgres://user:password@host/name`.',
    secret: true,
  }),
  peerHost: optional(text, {
    variable: 'BERTH_PEER_HOST',
    key: 'peers.host',
    without:
      'the address from which it connects to the database; every address if `BERTH_PEER_ADDRESS` is set',
    description:
      'With PostgreSQL: the address of this machine where other control planes connect (gRPC, mutual TLS).',
  }),
  peerPort: withDefault(port, 0, {
    variable: 'BERTH_PEER_PORT',
    key: 'peers.port',
    without: 'a free port',
    description: 'The port where other control planes connect.',
  }),
  peerAddress: optional(
    form('host:port', (given) => {
      if (!isEndpoint(given)) throw new Error('must be host:port, such as 10.0.0.7:7444')
    }),
    {
      variable: 'BERTH_PEER_ADDRESS',
      key: 'peers.address',
      without: 'the address from which it connects to the database, and the port above',
      description: 'The address that other control planes dial to reach this one.',
    },
  ),
  agentHost: withDefault(text, '127.0.0.1', {
    variable: 'BERTH_AGENT_HOST',
    key: 'agents.host',
    description: 'The address of this machine where agents connect (gRPC, mutual TLS).',
  }),
  agentPort: withDefault(port, 7_443, {
    variable: 'BERTH_AGENT_PORT',
    key: 'agents.port',
    description: 'The port where agents connect.',
  }),
  agentEndpoints: withDefault(
    list('list of host:port', 'host:port, such as deploy.example.com:7443', isEndpoint),
    [],
    {
      variable: 'BERTH_AGENT_ENDPOINTS',
      key: 'agents.endpoints',
      without: 'the host of `BERTH_URL` and the agents’ port',
      description: 'The addresses that agents dial; they receive them when they join.',
    },
  ),
  agentPackages: optional(path, {
    variable: 'BERTH_AGENT_PACKAGES',
    key: 'agents.packages',
    without: '`dist` of the checkout',
    description: 'The folder of packaged agents for new servers.',
  }),
  httpPort: withDefault(port, 80, {
    variable: 'BERTH_HTTP_PORT',
    key: 'tls.http_port',
    description: 'With a domain: the port that sends people on to HTTPS, and where ACME looks.',
  }),
  acmeDirectory: withDefault(webAddress, 'https://acme-v02.api.letsencrypt.org/directory', {
    variable: 'BERTH_ACME_DIRECTORY',
    key: 'tls.acme_directory',
    description: 'With a domain: the authority that issues certificates, by its directory.',
  }),
  acmeEmail: optional(form('mail address', checkEmail), {
    variable: 'BERTH_ACME_EMAIL',
    key: 'tls.acme_email',
    description: 'With a domain: where the authority reaches you.',
  }),
  tlsCertificateFile: optional(path, {
    variable: 'BERTH_TLS_CERTIFICATE_FILE',
    key: 'tls.certificate_file',
    without: 'none, ACME issues it',
    description: 'With a domain: a certificate of your own with its chain, PEM.',
  }),
  tlsKeyFile: optional(path, {
    variable: 'BERTH_TLS_KEY_FILE',
    key: 'tls.key_file',
    without: 'none, needed with a certificate of your own',
    description: 'With a domain: the key of that certificate, PEM.',
  }),
  agentUpgrades: withDefault(choice('manual', 'automatic'), 'manual', {
    variable: 'BERTH_AGENT_UPGRADES',
    key: 'agents.upgrades',
    description:
      'With `automatic`, a new version of the control plane upgrades the agents of all servers, in waves.',
  }),
  kekFile: optional(path, {
    variable: 'BERTH_KEK_FILE',
    key: 'keys.file',
    without: '`kek` in the data folder, created at the first start',
    description: 'The key that encrypts stored secrets: a file of 32 random bytes, mode 0400.',
  }),
  previousKekFile: optional(path, {
    variable: 'BERTH_KEK_PREVIOUS_FILE',
    key: 'keys.previous_file',
    description: 'The previous key, for the first start after a replacement.',
  }),
  smtpUrl: optional(form('SMTP address', checkSmtpUrl), {
    variable: 'BERTH_SMTP_URL',
    key: 'mail.smtp_url',
    without: 'none, no mail is sent',
    description: 'The mail server: `smtp://user:password@host:587` or `smtps://…`.',
    secret: true,
  }),
  mailFrom: optional(form('mail address', checkSender), {
    variable: 'BERTH_MAIL_FROM',
    key: 'mail.from',
    without: 'none, needed with a mail server',
    description: 'The sender of mail: `Berth <berth@example.com>`.',
  }),
  enrolmentsPerMinute: withDefault(most, FLEET.enrolmentsPerMinute, {
    variable: 'BERTH_ENROLMENTS_PER_MINUTE',
    key: 'limits.enrolments_per_minute',
    description:
      'How often agents of one address may join, or renew an expired certificate, in a minute.',
  }),
  downloadsPerMinute: withDefault(most, FLEET.downloadsPerMinute, {
    variable: 'BERTH_DOWNLOADS_PER_MINUTE',
    key: 'limits.downloads_per_minute',
    description: 'How often one address may download a packaged agent in a minute.',
  }),
  serversPerOrganization: withDefault(most, FLEET.serversPerOrganization, {
    variable: 'BERTH_SERVERS_PER_ORGANIZATION',
    key: 'limits.servers_per_organization',
    description: 'How many servers an organization may have.',
  }),
  projectsPerOrganization: withDefault(most, FLEET.projectsPerOrganization, {
    variable: 'BERTH_PROJECTS_PER_ORGANIZATION',
    key: 'limits.projects_per_organization',
    description: 'How many projects an organization may have.',
  }),
  rateLimitFactor: withDefault(number(0.01, 1_000_000, { whole: false }), 1, {
    variable: 'BERTH_RATE_LIMIT_FACTOR',
    key: 'limits.rate_factor',
    description: 'Multiplies the limits of requests per token and person; not those per address.',
  }),
  legacyWebhookSecret: optional(text, {
    variable: 'BERTH_LEGACY_WEBHOOK_SECRET',
    key: 'webhooks.legacy_secret',
    description: 'The shared secret of projects that predate secrets per project.',
    secret: true,
  }),
  backupTo: optional(text, {
    variable: 'BERTH_BACKUP_TO',
    key: 'backup.to',
    description: 'Where backups go: a folder, or `s3://bucket/folder`.',
  }),
  backupSchedule: optional(form('schedule', checkSchedule), {
    variable: 'BERTH_BACKUP_SCHEDULE',
    key: 'backup.schedule',
    without: 'none, only commands make backups',
    description: 'When backups are made, in UTC: five fields of cron, such as `0 3 * * *`.',
  }),
  backupKeep: withDefault(number(0, 99_999), 14, {
    variable: 'BERTH_BACKUP_KEEP',
    key: 'backup.keep',
    description: 'How many scheduled backups stay; 0 for all.',
  }),
  backupKeepDays: withDefault(number(0, 99_999), 0, {
    variable: 'BERTH_BACKUP_KEEP_DAYS',
    key: 'backup.keep_days',
    description: 'Scheduled backups that are older go; 0 for any age.',
  }),
  backupPassphraseFile: optional(path, {
    variable: 'BERTH_BACKUP_PASSPHRASE_FILE',
    key: 'backup.passphrase_file',
    without: 'none, see the next setting',
    description: 'A file with the passphrase that encrypts backups.',
  }),
  backupRecipients: withDefault(list('list of public keys', 'public keys of age'), [], {
    variable: 'BERTH_BACKUP_RECIPIENTS',
    key: 'backup.recipients',
    without: 'none, backups are not encrypted without a passphrase',
    description: 'Public keys of age (`age1…`) that backups are encrypted for.',
  }),
  s3Endpoint: optional(webAddress, {
    variable: 'BERTH_BACKUP_S3_ENDPOINT',
    key: 'backup.s3_endpoint',
    without: 'that of Amazon in the region',
    description: 'The address of S3-compatible storage.',
  }),
  s3Region: withDefault(text, 'us-east-1', {
    variable: 'BERTH_BACKUP_S3_REGION',
    key: 'backup.s3_region',
    description: 'The region of the storage.',
  }),
  s3AccessKeyId: optional(text, {
    variable: 'BERTH_BACKUP_S3_ACCESS_KEY_ID',
    key: 'backup.s3_access_key_id',
    description: 'The access key of the storage.',
  }),
  s3SecretAccessKey: optional(text, {
    variable: 'BERTH_BACKUP_S3_SECRET_ACCESS_KEY',
    key: 'backup.s3_secret_access_key',
    description: 'The secret of the access key.',
    secret: true,
  }),
  oidcIssuer: optional(webAddress, {
    variable: 'BERTH_OIDC_ISSUER',
    key: 'oidc.issuer',
    without: 'none, there is no provider',
    description:
      'Sign-in with an OpenID Connect provider: its issuer, such as `https://accounts.example.com`.',
  }),
  oidcClientId: optional(text, {
    variable: 'BERTH_OIDC_CLIENT_ID',
    key: 'oidc.client_id',
    without: 'none, needed with a provider',
    description: 'The client id of Berth at the provider.',
  }),
  oidcClientSecret: optional(text, {
    variable: 'BERTH_OIDC_CLIENT_SECRET',
    key: 'oidc.client_secret',
    without: 'none, needed with a provider',
    description: 'The secret of that client.',
    secret: true,
  }),
  oidcName: withDefault(text, 'single sign-on', {
    variable: 'BERTH_OIDC_NAME',
    key: 'oidc.name',
    description: 'The name of the provider on the button “Continue with …”.',
  }),
  oidcDomains: withDefault(
    list('list of domains', 'domains such as example.com', (one) =>
      /^[a-z0-9-]+(\.[a-z0-9-]+)+$/i.test(one),
    ),
    [],
    {
      variable: 'BERTH_OIDC_DOMAINS',
      key: 'oidc.domains',
      without: 'all',
      description: 'The e-mail domains whose people may sign in with the provider.',
    },
  ),
  oidcCreateAccounts: withDefault(flag, false, {
    variable: 'BERTH_OIDC_CREATE_ACCOUNTS',
    key: 'oidc.create_accounts',
    description:
      'Whether people without an account get one at their first sign-in. Otherwise they need an invitation.',
  }),
  passwordSignIn: withDefault(choice('everyone', 'administrators'), 'everyone', {
    variable: 'BERTH_PASSWORD_SIGN_IN',
    key: 'oidc.password_sign_in',
    description:
      'Who may sign in with a password beside the provider. Administrators always may, in case the provider fails.',
  }),
  metricsToken: optional(form('token', checkMetricsToken), {
    variable: 'BERTH_METRICS_TOKEN',
    key: 'metrics.token',
    without: 'none, there are no metrics',
    description: 'Opens `/metrics` to monitoring.',
    secret: true,
  }),
  tracesUrl: optional(webAddress, {
    variable: 'BERTH_TRACES_URL',
    key: 'traces.url',
    without: 'none, there are no traces',
    description:
      'Where a collector takes OpenTelemetry traces over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/traces`.',
  }),
  tracesHeaders: withDefault(
    list('list of headers', 'headers such as authorization=Bearer-abc', isHeader),
    [],
    {
      variable: 'BERTH_TRACES_HEADERS',
      key: 'traces.headers',
      without: 'none',
      description: 'Headers for the collector, `name=value` each.',
      secret: true,
    },
  ),
  configFile: optional(path, {
    variable: 'BERTH_CONFIG_FILE',
    without: '`/etc/berth/server.toml` if it exists',
    description: 'The settings file. Empty: no file is read.',
  }),
  development: withDefault(
    { name: '1', toml: 'string', parse: (given: string) => given === '1' },
    false,
    {
      variable: 'BERTH_DEV',
      without: 'off',
      description:
        'With `1`: local repositories are allowed, mail becomes files, and `/etc/berth/server.toml` is not read.',
    },
  ),
} as const

type Table = typeof SETTINGS
export type SettingName = keyof Table

/** What each setting is after reading. */
export type Values = {
  [N in SettingName]: Table[N] extends Setting<infer T>
    ? Table[N] extends { always: true }
      ? T
      : T | undefined
    : never
}

export const ROWS = Object.entries(SETTINGS) as [SettingName, Setting][]

function checkSchedule(cron: string): void {
  const fault = scheduleFault({ cron, timezone: 'UTC' })
  if (fault) throw new Error(`is no schedule: ${fault.replace(/\.$/, '')}`)
}

function isHeader(one: string): boolean {
  return /^[\w-]+=[\x20-\x7e]+$/.test(one)
}

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

function checkDomain(given: string): void {
  const labels = given.split('.')
  const isFine = labels.length > 1 && given.length <= 253 && labels.every((one) => LABEL.test(one))
  if (!isFine || isIP(given) !== 0) {
    throw new Error(
      'must be a name such as deploy.example.com, in lower case, without https:// and port',
    )
  }
}

function checkEmail(given: string): void {
  if (!/^[^\s@<>,]+@[^\s@<>,]+$/.test(given))
    throw new Error('must be an address such as you@example.com')
}

function checkMetricsToken(given: string): void {
  if (!/^[\x21-\x7e]{16,200}$/.test(given)) {
    throw new Error('must have 16 to 200 characters without spaces')
  }
}

/** Also the forms for a Unix socket that the database library takes. */
function checkDatabaseUrl(given: string): void {
  const isFine = /^(postgres(ql)?:\/\/|socket:|\/)/.test(given)
  if (!isFine) throw new Error('must be postgres://user:password@host/name')
}
