// Reads all settings: the environment wins over the file, the file over the default. It collects every problem, so that
// an operator corrects them in one go.
import { suggest } from '@berth/shared/suggestion'
import { type FileEntry, readFile, type SettingsFile } from './file.ts'
import type { Kind, Setting } from './setting.ts'
import { ROWS, type SettingName, type Values } from './table.ts'

export type Source =
  | { kind: 'default' }
  | { kind: 'environment' }
  | { kind: 'file'; path: string; line: number | undefined }

interface ReadSetting {
  name: SettingName
  setting: Setting
  /** The default if it is wrong. */
  value: unknown
  isWrong: boolean
  source: Source
}

export interface ReadSettings {
  /** The file that was read. */
  file: string | undefined
  rows: readonly ReadSetting[]
  /** Complete only without problems. */
  values: Values
  /** Each stops the start, and says what to do. */
  problems: string[]
  warnings: string[]
}

const SHOWN_CHARACTERS = 100

export function readSettings(env: NodeJS.ProcessEnv): ReadSettings {
  const problems: string[] = []
  const file = attempt(problems, () => readFile(env))
  const rows = ROWS.map(([name, setting]) => readOne(name, setting, env, file, problems))
  if (file) problems.push(...unknownKeys(file))
  const values = Object.fromEntries(rows.map(({ name, value }) => [name, value])) as Values
  problems.push(...contradictions(values), ...domainContradictions(values))
  const warnings = [...openFile(file, rows), ...misspeltVariables(env)]
  return { file: file?.path, rows, values, problems, warnings }
}

/** Settings that need or exclude each other. */
function* contradictions(values: Values): Generator<string> {
  if (values.smtpUrl !== undefined && values.mailFrom === undefined) {
    yield 'BERTH_MAIL_FROM (mail.from) must be set with a mail server: the address that mail comes from, such as Berth <berth@example.com>.'
  }
  if (values.backupSchedule !== undefined && values.backupTo === undefined) {
    yield 'BERTH_BACKUP_TO (backup.to) must be set with BERTH_BACKUP_SCHEDULE: where backups go.'
  }
  if (values.backupPassphraseFile !== undefined && values.backupRecipients.length > 0) {
    yield 'Only one of BERTH_BACKUP_PASSPHRASE_FILE and BERTH_BACKUP_RECIPIENTS may be set.'
  }
  const { oidcIssuer, oidcClientId, oidcClientSecret } = values
  const given = [oidcIssuer, oidcClientId, oidcClientSecret].filter((one) => one !== undefined)
  if (given.length === 1 || given.length === 2) {
    yield 'BERTH_OIDC_ISSUER, BERTH_OIDC_CLIENT_ID and BERTH_OIDC_CLIENT_SECRET must be set together.'
  }
  if (given.length === 0 && values.passwordSignIn === 'administrators') {
    yield 'BERTH_PASSWORD_SIGN_IN=administrators (oidc.password_sign_in) needs a provider: set BERTH_OIDC_ISSUER.'
  }
  if ((values.s3AccessKeyId === undefined) !== (values.s3SecretAccessKey === undefined)) {
    yield 'BERTH_BACKUP_S3_ACCESS_KEY_ID and BERTH_BACKUP_S3_SECRET_ACCESS_KEY must be set together.'
  }
}

/** The domain decides what people type. */
function* domainContradictions(values: Values): Generator<string> {
  const { domain, baseUrl, tlsCertificateFile, tlsKeyFile } = values
  const url = baseUrl === '' ? undefined : new URL(baseUrl)
  if (domain !== undefined && url && (url.protocol !== 'https:' || url.hostname !== domain)) {
    yield `BERTH_URL (url) must be https://${domain}, or not set, with BERTH_DOMAIN=${domain}.`
  }
  if ((tlsCertificateFile === undefined) !== (tlsKeyFile === undefined)) {
    yield 'BERTH_TLS_CERTIFICATE_FILE and BERTH_TLS_KEY_FILE must be set together.'
  } else if (tlsCertificateFile !== undefined && domain === undefined) {
    yield 'BERTH_DOMAIN (domain) must be set with a certificate of your own: the name that it is for.'
  }
}

function attempt<T>(problems: string[], work: () => T): T | undefined {
  try {
    return work()
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error))
    return undefined
  }
}

function readOne(
  name: SettingName,
  setting: Setting,
  env: NodeJS.ProcessEnv,
  file: SettingsFile | undefined,
  problems: string[],
): ReadSetting {
  const { kind, fallback, variable, key, secret } = setting
  const wrong = (source: Source, problem: string): ReadSetting => {
    problems.push(problem)
    return { name, setting, value: fallback, isWrong: true, source }
  }
  const parse = (text: string, source: Source, label: string): ReadSetting => {
    try {
      return { name, setting, value: kind.parse(text), isWrong: false, source }
    } catch (error) {
      const got = secret ? '' : `, got ${JSON.stringify(text.slice(0, SHOWN_CHARACTERS))}`
      return wrong(source, `${label} ${(error as Error).message}${got}.`)
    }
  }
  const given = env[variable]
  if (given !== undefined && given !== '') return parse(given, { kind: 'environment' }, variable)
  const entry = key === undefined ? undefined : file?.entries.get(key)
  if (!file || !entry) {
    return { name, setting, value: fallback, isWrong: false, source: { kind: 'default' } }
  }
  const source: Source = { kind: 'file', path: file.path, line: entry.line }
  const label = `${placeOf(file, entry)}: ${key}`
  const text = toText(entry.value, kind)
  if (text !== undefined) return parse(text, source, label)
  return wrong(source, `${label} must be ${EXAMPLES[kind.toml]}.`)
}

const EXAMPLES: Readonly<Record<Kind<unknown>['toml'], string>> = {
  string: 'text in double quotes, such as "text"',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list of texts, such as ["one", "two"]',
}

/** Undefined if the type is wrong. Text is fine for every kind, as in a variable. */
function toText(value: unknown, { toml }: Kind<unknown>): string | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'number' && toml === 'number') return String(value)
  if (typeof value === 'boolean' && toml === 'boolean') return String(value)
  const isTexts = Array.isArray(value) && value.every((one) => typeof one === 'string')
  return isTexts && toml === 'array' ? value.join(',') : undefined
}

const placeOf = ({ path }: SettingsFile, { line }: FileEntry): string =>
  line === undefined ? path : `${path}:${line}`

const KEYS = ROWS.flatMap(([, { key }]) => (key === undefined ? [] : [key]))

function unknownKeys(file: SettingsFile): string[] {
  return [...file.entries]
    .filter(([key]) => !KEYS.includes(key))
    .map(([key, entry]) => {
      const meant = meantKey(key)
      const hint = meant
        ? `did you mean ${meant}?`
        : 'run `berth-server config check` for the list.'
      return `${placeOf(file, entry)}: there is no setting ${key.slice(0, SHOWN_CHARACTERS)}; ${hint}`
    })
}

/** The key of a variable, the same name in another section, or a similar one. */
function meantKey(key: string): string | undefined {
  const variable = ROWS.find(([, row]) => row.variable === key)?.[1].key
  const lastOf = (full: string): string => full.split('.').at(-1) ?? full
  const elsewhere = KEYS.filter((known) => lastOf(known) === lastOf(key))
  return variable ?? suggest(key, KEYS) ?? (elsewhere.length === 1 ? elsewhere[0] : undefined)
}

function* openFile(
  file: SettingsFile | undefined,
  rows: readonly ReadSetting[],
): Generator<string> {
  if (!file?.isOpen) return
  const secrets = rows.filter(
    ({ setting }) => setting.secret && file.entries.has(setting.key ?? ''),
  )
  if (secrets.length === 0) return
  const keys = secrets.map(({ setting }) => setting.key).join(', ')
  yield `${file.path} holds ${keys}, and every account of this machine can read it. Run \`chmod o-rwx ${file.path}\`.`
}

const PREFIX = 'BERTH_'
const NAMES = ROWS.flatMap(([, { variable }]) =>
  variable.startsWith(PREFIX) ? [variable.slice(PREFIX.length)] : [],
)

/** Only similar names: the agent and the client have variables of their own. */
function* misspeltVariables(env: NodeJS.ProcessEnv): Generator<string> {
  for (const variable of Object.keys(env)) {
    const name = variable.startsWith(PREFIX) ? variable.slice(PREFIX.length) : undefined
    const meant = name === undefined || NAMES.includes(name) ? undefined : suggest(name, NAMES)
    if (meant)
      yield `${variable} is no setting of the control plane; did you mean ${PREFIX}${meant}?`
  }
}
