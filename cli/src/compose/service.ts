// One service of a compose file in the words of .service.yml. What has no counterpart becomes a note with the reason.
// Secrets are never copied: they become custom variables that the user sets. PURE.
import {
  isDatabaseImage,
  isReservedVariable,
  looksLikeSecret,
  VARIABLE_KEY,
} from '@berth/shared/service-file'
import { dependencyNames, healthOf } from './health.ts'
import { REASONS } from './reasons.ts'
import {
  durationOf,
  type Filled,
  interpolate,
  isMap,
  isScalar,
  listOf,
  type Plain,
  pairsOf,
  quoteWords,
  serviceName,
  sizeOf,
  splitWords,
} from './values.ts'

export interface Note {
  /** `web.ports`. */
  where: string
  reason: string
}

/** A custom variable that the user has to set. */
export interface Wanted {
  key: string
  reason: string
  /** As written in the compose file; only compared, never shown. */
  written: string | null
}

export interface Converted {
  name: string
  /** Keys of .service.yml. */
  keys: Record<string, unknown>
  dependsOn: { name: string; condition: string }[]
  wanted: Wanted[]
  volumes: string[]
  /** Its values come from files that are not read. */
  hasEnvFile: boolean
}

interface Place {
  /** Folder of the compose file in the repository, '' for its root. */
  folder: string
  /** Keys of a docker service that this version of Berth knows. */
  known: ReadonlySet<string>
  note(key: string, reason: string): void
}

/** Ports of databases whose compose services usually name none. */
const DATABASE_PORTS: Record<string, number> = {
  postgres: 5432,
  postgis: 5432,
  pgvector: 5432,
  postgresql: 5432,
  redis: 6379,
  valkey: 6379,
  mysql: 3306,
  mariadb: 3306,
  mongo: 27017,
  memcached: 11211,
  rabbitmq: 5672,
}

const textOf = (value: unknown): string | undefined =>
  isScalar(value) ? interpolate(String(value)).text : undefined

/** A relative path below the repository; null if it leads out of it. */
export function pathBelow(folder: string, path: string): string | null {
  if (/^(?:\/|~|[a-z][a-z0-9+.-]*:\/\/|[^/]*@[^/]*:)/i.test(path)) return null
  const parts: string[] = []
  for (const part of [...folder.split('/'), ...path.split('/')]) {
    if (part === '' || part === '.') continue
    if (part !== '..') parts.push(part)
    else if (parts.pop() === undefined) return null
  }
  return parts.join('/') || '.'
}

function buildOf(value: unknown, place: Place): unknown {
  if (value === undefined || value === null) return undefined
  const given: Plain = isMap(value) ? value : { context: value }
  const context = pathBelow(place.folder, textOf(given.context) ?? '.')
  if (context === null) {
    place.note('build.context', 'is outside of the repository')
    return undefined
  }
  const build: Record<string, unknown> = { context }
  const dockerfile = textOf(given.dockerfile)
  if (dockerfile !== undefined) {
    const path = pathBelow('', dockerfile)
    if (path === null) place.note('build.dockerfile', 'is outside of the build context')
    else if (path !== 'Dockerfile') build.dockerfile = path
  }
  const target = textOf(given.target)
  if (target !== undefined) build.target = target
  const args = argsOf(given.args, place)
  if (Object.keys(args).length > 0) build.args = args
  for (const key of Object.keys(given)) {
    if (['context', 'dockerfile', 'target', 'args'].includes(key) || key.startsWith('x-')) continue
    place.note(`build.${key}`, REASONS[`build.${key}`] ?? 'has no counterpart')
  }
  return Object.keys(build).length === 1 ? context : build
}

function argsOf(value: unknown, place: Place): Record<string, string> {
  const args: Record<string, string> = {}
  for (const [key, written] of pairsOf(value)) {
    const filled = written === null ? null : interpolate(written)
    const where = `build.args.${key}`
    if (filled === null || filled.missing.length > 0) {
      place.note(where, 'gets its value from your shell; write it into .service.yml')
    } else if (isSecret(key, filled.text)) {
      place.note(where, 'looks like a secret, and build arguments stay in the image')
    } else args[key] = filled.text
  }
  return args
}

/** The engine's name for a tag that is not known here is `latest`. */
function imageOf(value: unknown, place: Place): string | undefined {
  if (!isScalar(value)) return undefined
  const { text, missing } = interpolate(String(value))
  if (missing.length === 0) return text
  const [name = '', ...tag] = text.split(/:(?=[^/]*$)/)
  if (name.includes('$') || tag.length === 0) {
    place.note('image', `needs a value for ${missing.join(', ')}`)
    return undefined
  }
  place.note(
    'image',
    `has the tag ${tag.join('')}, which has no default: without a tag it is latest`,
  )
  return name
}

const isSecret = (key: string, value: string): boolean =>
  value !== '' &&
  (looksLikeSecret(key) ||
    /(?:^|_)(?:PASS|PASSWD|PASSPHRASE|PWD|SECRET|TOKEN|CREDENTIALS?|DSN|KEY_BASE)$/i.test(key) ||
    /^[a-z][a-z0-9+.-]*:\/\/[^/\s:@]*:[^/\s@]+@/i.test(value) ||
    value.includes('-----BEGIN'))

interface Variables {
  env: Record<string, string>
  wanted: Wanted[]
}

function variablesOf(value: unknown, place: Place): Variables {
  const env: Record<string, string> = {}
  const wanted: Wanted[] = []
  for (const [key, written] of pairsOf(value)) {
    if (!VARIABLE_KEY.test(key)) place.note(`environment.${key}`, 'is not a name of a variable')
    else if (isReservedVariable(key)) place.note(`environment.${key}`, 'is set by Berth itself')
    else if (written?.startsWith('/run/secrets/') && key.endsWith('_FILE')) {
      const reason = `${key} read it from a secret file`
      wanted.push({ key: key.slice(0, -'_FILE'.length), reason, written })
    } else {
      const filled = written === null ? null : interpolate(written)
      if (filled === null) wanted.push({ key, reason: 'the compose file gives no value', written })
      else if (filled.missing.length > 0) {
        wanted.push({ key, reason: `uses ${filled.missing.join(', ')}`, written })
      } else if (isSecret(key, filled.text)) {
        wanted.push({ key, reason: 'looks like a secret', written })
      } else env[key] = filled.text
    }
  }
  return { env, wanted }
}

interface Port {
  port: number
  isLocal: boolean
}

function portsOf(value: unknown, place: Place): Port[] {
  return listOf(value).flatMap((one) => {
    const port = isMap(one) ? longPort(one) : isScalar(one) ? shortPort(String(one)) : null
    if (port !== null) return [port]
    const shown = isMap(one) ? String(one.target) : String(one)
    place.note('ports', `${shown} is not one TCP port`)
    return []
  })
}

function longPort(value: Plain): Port | null {
  const port = Number(textOf(value.target))
  const isTcp = value.protocol === undefined || value.protocol === 'tcp'
  if (!isTcp || !isPort(port)) return null
  return { port, isLocal: isLoopback(textOf(value.host_ip)) }
}

function shortPort(written: string): Port | null {
  const [address = '', protocol = 'tcp'] = interpolate(written).text.split('/')
  const match = /^(?:(.*):)?(?:[^:]*:)?(\d{1,5})$/.exec(address)
  const port = Number(match?.[2])
  if (protocol !== 'tcp' || !isPort(port)) return null
  return { port, isLocal: isLoopback(/^(127\.[\d.]+|\[?::1\]?):/.exec(address)?.[1]) }
}

const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65_535
const isLoopback = (address: string | undefined): boolean =>
  address !== undefined && /^(?:127\.|\[?::1)/.test(address)

/** `port` and `public`. Databases, and what compose publishes on loopback alone, get no address. */
function addressOf(raw: Plain, image: string | undefined, place: Place): Record<string, unknown> {
  const published = portsOf(raw.ports, place)
  const exposed = portsOf(raw.expose, place)
  const isDatabase = image !== undefined && isDatabaseImage(image)
  const [first = exposed[0], ...others] = published
  for (const { port } of others) {
    if (port === first?.port) continue
    place.note('ports', `${port} is another port, and a service has one; other services reach it`)
  }
  const name = image?.split('@')[0]?.split('/').at(-1)?.replace(/:.*$/, '') ?? ''
  const port = first?.port ?? (isDatabase ? DATABASE_PORTS[name] : undefined)
  if (port === undefined) return {}
  const isPublic = published.length > 0 && !isDatabase && !first?.isLocal
  if (isDatabase && published.length > 0) {
    place.note('ports', 'a database gets no address; other services reach it by its name')
  } else if (published.length > 0 && !isPublic) {
    place.note('ports', 'is published on loopback only, so it gets no address')
  }
  return isPublic ? { port } : { port, public: false }
}

function mountsOf(raw: Plain, place: Place) {
  const mounts: string[] = []
  const volumes: string[] = []
  const tmpfs: string[] = []
  const add = (source: string, target: string, isReadOnly: boolean): void => {
    const name = serviceName(source)
    if (name === null) place.note('volumes', `${source} cannot be a name`)
    else {
      volumes.push(name)
      mounts.push(`${name}:${target}${isReadOnly ? ':ro' : ''}`)
    }
  }
  for (const one of listOf(raw.volumes)) {
    const { type, source, target, isReadOnly } = isMap(one) ? longMount(one) : shortMount(one)
    if (target === undefined) place.note('volumes', 'has an entry without a path')
    else if (type === 'tmpfs') tmpfs.push(target)
    else if (type === 'bind') place.note('volumes', `${source}:${target} ${REASONS.bind}`)
    else if (type !== 'volume') place.note('volumes', `${target} is a mount of type ${type}`)
    else if (source === undefined) {
      place.note('volumes', `${target} has no name, so compose does not keep it either`)
    } else add(source, target, isReadOnly)
  }
  for (const one of listOf(raw.tmpfs)) {
    const [path = '', options = ''] = (textOf(one) ?? '').split(':')
    const size = sizeOf(/(?:^|,)size=([^,]+)/.exec(options)?.[1])
    tmpfs.push(size === null ? path : `${path}:${size}`)
  }
  return { mounts, volumes, tmpfs }
}

interface Mount {
  type: string
  source: string | undefined
  target: string | undefined
  isReadOnly: boolean
}

const longMount = (value: Plain): Mount => ({
  type: textOf(value.type) ?? 'volume',
  source: textOf(value.source),
  target: textOf(value.target),
  isReadOnly: value.read_only === true,
})

function shortMount(value: unknown): Mount {
  const text = textOf(value) ?? ''
  const [first = '', second, mode = ''] = text.split(':')
  if (second === undefined) {
    return { type: 'volume', source: undefined, target: first || undefined, isReadOnly: false }
  }
  const isPath = /^[./~$]/.test(first)
  const isReadOnly = mode.split(',').includes('ro')
  return { type: isPath ? 'bind' : 'volume', source: first, target: second, isReadOnly }
}

interface Command {
  command: string | string[] | undefined
  wanted: Wanted[]
}

const SECRET_FLAG =
  /(--?[\w-]*(?:passw(?:or)?d|requirepass|token|secret|api-?key)(?:=|\s+))(?!["']?\$)("[^"]*"|'[^']*'|[^\s"']+)/gi

/** Words run as they are. What is not known here needs a shell that reads it from a variable at the start. */
function commandOf(service: string, value: unknown): Command {
  if (value === undefined || value === null) return { command: undefined, wanted: [] }
  const words = Array.isArray(value)
    ? value.filter(isScalar).map((word) => interpolate(String(word)))
    : splitWords(String(value)).map(interpolate)
  if (words.length === 0) return { command: undefined, wanted: [] }
  const reason = 'its command uses it'
  const wanted = words.flatMap(({ missing }) =>
    missing.map((key): Wanted => ({ key, reason, written: null })),
  )
  const line = words.map(shellWord).join(' ')
  const hidden = hideSecrets(service, line)
  if (wanted.length === 0 && hidden.wanted.length === 0) {
    return { command: words.map(({ text }) => text), wanted }
  }
  return { command: hidden.line, wanted: [...wanted, ...hidden.wanted] }
}

const shellWord = ({ text, missing }: Filled): string =>
  missing.length > 0 ? `"${text.replaceAll(/["`\\]/g, '\\$&')}"` : quoteWords([text])

/** A password in a command line becomes a variable. */
function hideSecrets(service: string, line: string): { line: string; wanted: Wanted[] } {
  const wanted: Wanted[] = []
  const hidden = line.replaceAll(SECRET_FLAG, (_, flag: string, written: string) => {
    const words = `${service}_${flag}`.replaceAll(/[^A-Za-z0-9]+/g, '_')
    const key = words.replace(/_+$/, '').toUpperCase()
    wanted.push({ key, reason: `looks like a secret in the command of ${service}`, written })
    return `${flag}"$${key}"`
  })
  return { line: hidden, wanted }
}

function limitsOf(raw: Plain, place: Place): Record<string, unknown> {
  const deploy = isMap(raw.deploy) ? raw.deploy : {}
  const resources = isMap(deploy.resources) ? deploy.resources : {}
  const limits = isMap(resources.limits) ? resources.limits : {}
  const memory = sizeOf(textOf(raw.mem_limit ?? limits.memory))
  const cpus = Number(textOf(raw.cpus ?? limits.cpus))
  const replicas = Number(textOf(deploy.replicas ?? raw.scale))
  const result: Record<string, unknown> = {}
  if (memory !== null) result.memory = memory
  if (cpus > 0) result.cpus = cpus
  if (replicas > 1) {
    if (place.known.has('replicas')) result.replicas = replicas
    else place.note('deploy.replicas', 'a service runs once')
  }
  for (const key of Object.keys(deploy)) {
    if (['resources', 'replicas'].includes(key) || key.startsWith('x-')) continue
    place.note(`deploy.${key}`, REASONS[`deploy.${key}`] ?? 'has no counterpart')
  }
  if (resources.reservations !== undefined) {
    place.note('deploy.resources.reservations', 'nothing is reserved; limits are kept')
  }
  return result
}

const CONVERTED = new Set(
  (
    'build image command entrypoint user ports expose environment env_file volumes tmpfs depends_on ' +
    'healthcheck deploy scale mem_limit cpus shm_size stop_signal stop_grace_period profiles extends'
  ).split(' '),
)

function stopOf(raw: Plain, place: Place): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  const timeout = durationOf(raw.stop_grace_period)
  if (timeout !== null) result.stop_timeout = timeout
  const signal = textOf(raw.stop_signal)
  if (signal !== undefined) {
    result.stop_signal = signal.startsWith('SIG') ? signal : `SIG${signal}`
  }
  const shm = sizeOf(textOf(raw.shm_size))
  if (shm !== null) result.shm_size = shm
  const user = textOf(raw.user)
  if (user !== undefined) {
    if (user.includes('$')) place.note('user', 'needs a value that the compose file does not give')
    else result.user = user
  }
  return result
}

/** A check with a password in its command reads it from a variable as well. */
function hideCheck(health: unknown, name: string, wanted: Wanted[]): unknown {
  if (!isMap(health) || health.command === undefined) return health
  const { command, ...timing } = health
  const text = typeof command === 'string' ? command : quoteWords(command as string[])
  const hidden = hideSecrets(name, text)
  if (hidden.wanted.length === 0) return health
  wanted.push(...hidden.wanted)
  return { command: hidden.line, ...timing }
}

/** Null: nothing can run; the notes say why. */
export function convertService(name: string, raw: Plain, place: Place): Converted | null {
  const image = raw.build === undefined ? imageOf(raw.image, place) : undefined
  const build = buildOf(raw.build, place)
  if (build === undefined && image === undefined) return null
  const { env, wanted } = variablesOf(raw.environment, place)
  const address = addressOf(raw, image, place)
  const port = typeof address.port === 'number' ? address.port : null
  const check = healthOf(raw.healthcheck, port)
  for (const reason of check.notes) place.note('healthcheck', reason)
  for (const key of check.missing) {
    wanted.push({ key, reason: 'its health check uses it', written: null })
  }
  const { mounts, volumes, tmpfs } = mountsOf(raw, place)
  const command = commandOf(name, raw.command)
  const entry = commandOf(name, raw.entrypoint)
  const entrypoint = raw.entrypoint === '' ? [] : entry.command
  wanted.push(...command.wanted, ...entry.wanted)
  const keys: Record<string, unknown> = {
    ...(build === undefined ? { image } : { build }),
    command: command.command,
    entrypoint: typeof entrypoint === 'string' ? ['/bin/sh', '-c', entrypoint] : entrypoint,
    ...address,
    health: hideCheck(check.health, name, wanted),
    ...(Object.keys(env).length > 0 && { env }),
    ...(mounts.length > 0 && { volumes: mounts }),
    ...(tmpfs.length > 0 && { tmpfs }),
    ...limitsOf(raw, place),
    ...stopOf(raw, place),
  }
  for (const file of listOf(raw.env_file)) {
    const path = isMap(file) ? textOf(file.path) : textOf(file)
    place.note(
      'env_file',
      `${path} is not read; berth vars set --from-file ${path} sets its values`,
    )
  }
  for (const key of Object.keys(raw)) {
    if (CONVERTED.has(key) || key.startsWith('x-')) continue
    const reason = REASONS[key] ?? 'has no counterpart in .service.yml'
    if (reason !== '') place.note(key, reason)
  }
  const dependsOn = dependencyNames(raw.depends_on)
  const hasEnvFile = raw.env_file !== undefined
  return { name, keys, dependsOn, wanted, volumes, hasEnvFile }
}
