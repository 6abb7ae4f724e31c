// The single values of .service.yml: patterns, limits and a message for each mistake. A `fault` may be stricter than
// the pattern, never laxer, because editors see only the pattern.
import { z } from 'zod'
import { SERVICE_FILE, TASKS } from '../limits/limits.ts'
import { DOMAIN, domainFault } from './domain.ts'
import { quoted, shown } from './problem.ts'
import { cronFault, timezoneFault } from './schedule.ts'
import {
  isReservedVariable,
  OWN_VARIABLE_KEY,
  placeholder,
  SYSTEM_VARIABLES,
  VARIABLE_KEY,
} from './variables.ts'
import {
  about,
  also,
  atMost,
  type Fault,
  list,
  map,
  named,
  say,
  sizeBytes,
  text,
} from './vocabulary.ts'

export const NAME = /^[a-z][a-z0-9-]{0,38}$/

export const name = say(
  z.string().regex(NAME),
  { expects: 'a name of lower case letters, digits and dashes', fault: nameFault },
  { id: 'name', description: 'Lower case letters, digits and dashes, first a letter, at most 39.' },
)

function nameFault(value: string): Fault | undefined {
  if (NAME.test(value)) return undefined
  const tidy = value
    .slice(0, 100)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[^a-z]+|-$/g, '')
  const code = 'invalid_name'
  if (/^[a-z][a-z0-9-]*$/.test(value)) return { code, says: 'must be at most 39 characters long' }
  if (/^[0-9-][a-z0-9-]*$/.test(value)) return { code, says: 'must begin with a letter' }
  const suggestion = NAME.test(tidy) ? tidy : 'web'
  const says = `must be lower case letters, digits and dashes, for example '${suggestion}'`
  return { code, says, suggestion }
}

export const envKey = say(
  z.string().regex(OWN_VARIABLE_KEY),
  { expects: 'a name of letters, digits and underscores', fault: envKeyFault },
  { id: 'envKey' },
)

function envKeyFault(key: string): Fault | undefined {
  if (isReservedVariable(key)) {
    const says = 'is set by Berth and cannot be given here; choose another name'
    return { code: 'reserved_key', says }
  }
  // Not a variable, but the name that reaches JavaScript's prototypes.
  if (key === '__proto__') return { code: 'invalid_name', says: 'cannot be used; choose another' }
  if (VARIABLE_KEY.test(key)) return undefined
  const tidy = key
    .slice(0, SERVICE_FILE.quotedCharacters)
    .replaceAll(/[^A-Za-z0-9_]+/g, '_')
    .replace(/^(?=[0-9])/, '_')
  const says = `must be letters, digits and underscores, for example '${tidy || 'LOG_LEVEL'}'`
  return { code: 'invalid_name', says, suggestion: tidy || 'LOG_LEVEL' }
}

const duration = say(
  z.string().regex(/^[1-9][0-9]{0,4}(s|m|h|d)$/),
  { expects: 'a duration such as 30s, 10m, 2h or 7d' },
  { id: 'duration', examples: ['30s', '10m', '7d'] },
)

export const size = say(
  z.string().regex(/^[1-9][0-9]{0,6}(k|m|g)$/),
  {
    expects: 'a size such as 512k, 512m or 2g',
    fault: (value) =>
      /^\d{1,7}[kmg]$/.test(value) && sizeBytes(value) > SERVICE_FILE.memoryBytes
        ? {
            says: `must be at most ${SERVICE_FILE.memoryBytes / 1_024 ** 3}g, got ${quoted(value)}`,
          }
        : undefined,
  },
  { id: 'size', examples: ['512m', '2g'] },
)

export const port = say(
  z.int().min(1).max(65_535),
  { expects: 'a whole number from 1 to 65535' },
  { id: 'port' },
)

export const RELATIVE = "a path inside the repository, relative, without '..'"
export const relativePath = say(
  z
    .string()
    .min(1)
    .max(SERVICE_FILE.pathCharacters)
    .regex(/^(?![/-])(?!.*(^|\/)\.\.(\/|$))(?![A-Za-z][A-Za-z0-9+.-]*:\/\/)(?![^/]*@[^/]*:).+$/),
  { expects: RELATIVE, fault: pathFault },
  { id: 'relativePath' },
)

/** A URL is not a path, though it reads like one; and a path must not look like an option. */
function pathFault(value: string): Fault | undefined {
  if (/^[a-z][a-z0-9+.-]*:\/\/|^[^/]*@[^/]*:/i.test(value)) {
    return { says: `must be a path inside the repository, not an address, got ${quoted(value)}` }
  }
  if (value.startsWith('-')) return { says: `must not begin with '-', got ${quoted(value)}` }
  return unprintable(value)
}

/** As mise takes them: 22, 3.12, lts, temurin-21. */
const toolVersion = say(
  z.union([z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/), z.number().nonnegative()]),
  { expects: 'a version such as 22, 3.12 or lts' },
)

export const tools = named(
  name,
  toolVersion,
  { noun: 'tool', max: SERVICE_FILE.tools, isEnv: true },
  {
    description:
      "Runtimes by version, for steps, services, actions and SSH. The server's own program is " +
      'used if its version fits, else mise installs it.',
    examples: [{ node: 22, python: '3.12' }],
  },
)

/** Read from the commit, where only names of the root are known. */
export const rootFile = say(z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/), {
  expects: 'the name of a file in the root of the repository, such as Procfile',
})

/** A path that each deployment links into the persistent folder; a '/' at its end names a folder. */
export const sharedPath = also(relativePath, {
  expects: "a path such as storage or data/app.sqlite3, relative, without '.' and '..'",
  fault: (value) => {
    const says = `must be a path such as storage, without '.', '..' and '//', got ${quoted(value)}`
    return /(^|\/)\.{0,2}(\/|$)/.test(value.replace(/(?<=[^/])\/$/, '')) ? { says } : undefined
  },
})

export const domain = say(
  z.string().min(3).max(253).regex(DOMAIN),
  { expects: 'a host name', fault: domainFault },
  {
    id: 'domain',
    description:
      `Fully custom domain of this service. May use ${SYSTEM_VARIABLES.map(placeholder).join(', ')}. ` +
      "Without it: the environment's domain (default service, or a service with 'path'), " +
      'else {service}-{environment domain}.',
    examples: [
      `docs-${placeholder('SERVICE_ENV_IDENTIFIER')}.acme.dev`,
      `admin.${placeholder('SERVICE_DOMAIN')}`,
    ],
  },
)

export const urlPath = say(
  z
    .string()
    .max(SERVICE_FILE.pathCharacters)
    .regex(/^\/[^\s?#]*$/),
  { expects: "a path such as /api: first '/', no spaces, no '?', no '#'", fault: unprintable },
  {
    id: 'urlPath',
    description:
      'Serve only requests whose path begins with this prefix. The prefix is kept. The longest ' +
      'matching prefix of a host wins.',
    examples: ['/api'],
  },
)

const healthPath = say(z.string().regex(/^\//), {
  expects: "a path that begins with '/', such as /up",
  fault: (value) => {
    const max = SERVICE_FILE.pathCharacters
    if (value.length > max) return { says: `must be at most ${max} characters long` }
    return /\s/.test(value) ? { says: 'must not hold spaces' } : unprintable(value)
  },
})

export function unprintable(value: string): Fault | undefined {
  return /\p{Cc}/u.test(value)
    ? { says: `must not hold control characters, got ${quoted(value)}` }
    : undefined
}

const healthWait = atMost(duration, SERVICE_FILE.healthMaxMs, '1h')
/** No task takes longer, so no step may ask for more. */
export const stepTimeout = atMost(duration, TASKS.timeoutMaxMs, '6h')
export const actionTimeout = atMost(duration, SERVICE_FILE.actionTimeoutMaxMs, '6h')
export const retention = atMost(duration, SERVICE_FILE.retentionMaxMs, '90d')
export const stopTimeout = atMost(duration, SERVICE_FILE.stopTimeoutMaxMs, '10m')
export const drain = atMost(duration, SERVICE_FILE.drainMaxMs, '1h')
export const replicas = say(z.int().min(1).max(SERVICE_FILE.replicas), {
  expects: `a whole number from 1 to ${SERVICE_FILE.replicas}`,
})
export const restart = say(z.enum(['unhealthy']), {
  expects: 'unhealthy (without it, only a process that ends is started again)',
})
export const cpus = say(z.number().gt(0).max(SERVICE_FILE.cpus), {
  expects: `a number above 0, at most ${SERVICE_FILE.cpus}`,
})
const REPOSITORY_PART = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*'
const REGISTRY = '(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:]+\\])(?::[0-9]{1,5})?'
const TAG = '[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}'
/** The engine's own grammar; any other text never reaches a registry. */
const IMAGE = new RegExp(
  `^(?:${REGISTRY}/)?${REPOSITORY_PART}(?:/${REPOSITORY_PART})*(?::${TAG})?(?:@sha256:[0-9a-f]{64})?$`,
)

function imageFault(value: string): Fault | undefined {
  if (/\s/.test(value)) return { says: `must not hold spaces, got ${quoted(value)}` }
  if (/^(?:sha256:[0-9a-f]*|[0-9a-f]{64})$/i.test(value)) {
    return { says: `must name an image of a registry, not an image's id, got ${quoted(value)}` }
  }
  if (!IMAGE.test(value) && IMAGE.test(value.toLowerCase())) {
    return { says: `must be in lower case but for its tag, got ${quoted(value)}` }
  }
  return undefined
}

export const image = say(
  z.string().min(1).max(SERVICE_FILE.imageCharacters).regex(IMAGE),
  {
    expects: `an image such as postgres:18, at most ${SERVICE_FILE.imageCharacters} characters`,
    fault: imageFault,
  },
  { description: "Image reference to pull. Either 'build' or 'image'.", examples: ['postgres:18'] },
)

export const buildTarget = say(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/), {
  expects: 'the name of a build stage: letters, digits, dots, dashes and underscores',
})

/** Kernel folders, and what Berth mounts itself: nothing may be mounted at or below these. */
const CLOSED = ['/proc', '/sys', '/dev', '/run/berth', '/var/run/berth']
/** Folders that an image needs: mounts are allowed below them, but not at the folder itself. */
const NEEDED = '/ /bin /boot /etc /lib /lib32 /lib64 /libx32 /run /sbin /usr /var/run'.split(' ')

function volumeFault(value: string): Fault | undefined {
  const [from = '', path = ''] = value.split(':')
  if (!NAME.test(from) || !path.startsWith('/')) return undefined
  return mountFault(path, value)
}

/** Where nothing of the kernel, of Berth or of the image is hidden. */
function mountFault(path: string, value: string): Fault | undefined {
  if (path.length > SERVICE_FILE.pathCharacters) {
    return { says: `must have a path of at most ${SERVICE_FILE.pathCharacters} characters` }
  }
  if (/\/\.{0,2}\/|\/\.{1,2}$/.test(path)) {
    return { says: `must have a path without '.', '..' and '//', got ${quoted(value)}` }
  }
  const place = path.replace(/(?<=.)\/$/, '')
  const closed = CLOSED.find((folder) => place === folder || place.startsWith(`${folder}/`))
  if (closed) return { says: `cannot be mounted in ${closed}, got ${quoted(value)}` }
  if (NEEDED.includes(place)) {
    return { says: `cannot replace ${place} of the image; mount a folder below it` }
  }
  return unprintable(value)
}

export const volume = say(z.string().regex(/^[a-z][a-z0-9-]{0,38}:\/[^:]+(:ro)?$/), {
  expects: 'name:/path or name:/path:ro, with a name from docker.volumes',
  fault: volumeFault,
})

/** In memory; the size counts against the memory of the service. */
export const tmpfs = say(z.string().regex(/^\/[^:]+(:[1-9][0-9]{0,6}(k|m|g))?$/), {
  expects: 'a path such as /cache or /cache:256m',
  fault: (value) => {
    const [path = ''] = value.split(':')
    return path.startsWith('/') ? mountFault(path, value) : undefined
  },
})

const USER_PART = '(?:[0-9]{1,9}|[a-z_][a-z0-9_.-]{0,31})'
export const user = say(z.string().regex(new RegExp(`^${USER_PART}(?::${USER_PART})?$`)), {
  expects: 'a user such as 1000, 1000:1000 or app (in quotes, if it is a number)',
})

export const STOP_SIGNALS = [
  'SIGTERM',
  'SIGINT',
  'SIGQUIT',
  'SIGHUP',
  'SIGUSR1',
  'SIGUSR2',
  'SIGWINCH',
] as const
export const stopSignal = say(z.enum(STOP_SIGNALS), {
  expects: `one of ${STOP_SIGNALS.join(', ')}`,
})

const CRON_FIELD = '[0-9A-Za-z*,/-]+'
export const cron = say(
  z
    .string()
    .max(SERVICE_FILE.cronCharacters)
    .regex(new RegExp(`^${CRON_FIELD}(?: ${CRON_FIELD}){4}$`)),
  { expects: "five cron fields such as '0 3 * * *'", fault: cronFault },
)
export const timezone = say(
  z
    .string()
    .max(SERVICE_FILE.timezoneCharacters)
    .regex(/^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){0,2}$/),
  { expects: 'a time zone such as Europe/Berlin', fault: timezoneFault },
)

/** `*`, `**`, `?`, `[…]`, `{a,b}`; bounded, because each `**` and each brace multiplies the work. */
function patternFault(value: string): Fault | undefined {
  const max = SERVICE_FILE.patternWildcards
  const wildcards = value.split('**').length - 1 + (value.split('{').length - 1)
  if (wildcards > max) {
    return { says: `has ${wildcards} of '**' and '{'; at most ${max} are possible` }
  }
  if (value.split('{').length !== value.split('}').length) {
    return { says: `has a '{' or '}' without its partner, got '${shown(value)}'` }
  }
  return unprintable(value)
}

export const artifactPattern = also(relativePath, {
  expects: "a pattern such as exports/*.csv, relative, without '..'",
  fault: patternFault,
})

export const env = named(
  envKey,
  say(z.union([z.string(), z.number(), z.boolean()]), { expects: 'text, a number, true or false' }),
  { noun: 'variable', max: SERVICE_FILE.env, isEnv: true },
  {
    id: 'env',
    description:
      'Non-secret defaults. Custom variables of the environment win over these; system ' +
      'variables win over both.',
  },
)

const healthKeys = {
  path: about(healthPath, "Path asked with GET on the service's port.").optional(),
  command: say(
    z.union([text(), list(say(z.string(), { expects: 'text' }), { noun: 'word', min: 1 })]),
    { expects: 'a command, or a list of its words' },
    {
      description:
        'Command that exits with 0 when the service is healthy. docker: in its container. ' +
        'manual: on the server, in the checkout. A string goes through /bin/sh -c.',
      examples: ['pg_isready -U app'],
    },
  ).optional(),
  status: say(
    z.int().min(100).max(599),
    { expects: 'a status from 100 to 599' },
    { description: 'The one status that counts as healthy. Default: any of 200-399.' },
  ).optional(),
  interval: about(
    healthWait,
    'Time between two checks. Default 1s during a deployment; afterwards 7s, and 30s for a ' +
      'command. Afterwards a check never runs more often than every 5s.',
  ).optional(),
  timeout: about(healthWait, 'Longest wait for one answer. Default 5s.').optional(),
  start_period: about(
    healthWait,
    'Failures are not counted for this long after the start. Default 60s.',
  ).optional(),
  retries: say(
    z.int().min(1).max(SERVICE_FILE.healthRetries),
    { expects: `a whole number from 1 to ${SERVICE_FILE.healthRetries}` },
    {
      description:
        'Failures in a row, after start_period, that end the deployment, or that make a running ' +
        'service unhealthy. Default 3.',
    },
  ).optional(),
}

const healthOf = <T extends z.ZodRawShape>(
  keys: T,
  id: string,
  words: { expects: string; byDefault: string; excluded: string[][] },
) =>
  say(
    z.union([
      healthPath,
      z.literal(false),
      map(keys, {}, { atMostOne: words.excluded, needs: { status: 'path' } }),
    ]),
    { expects: `a path such as /up, a map with ${words.expects}, or false` },
    {
      id,
      description:
        'When the service counts as healthy. Traffic moves, and services that depend on it start, ' +
        `only then. Default: ${words.byDefault}. A path: it answers 200-399. false: do not check.`,
    },
  )

export const dockerHealth = healthOf(
  {
    ...healthKeys,
    port: about(
      port,
      "Port to ask instead of the service's own. Without 'path': a TCP connection succeeds.",
    ).optional(),
  },
  'health',
  {
    expects: "'path', 'command' or 'port'",
    byDefault: "the image's own HEALTHCHECK, else a TCP connection to the port",
    excluded: [
      ['path', 'command'],
      ['port', 'command'],
    ],
  },
)

/** The agent asks as root, so the file cannot choose another port of the server. */
export const manualHealth = healthOf(healthKeys, 'manualHealth', {
  expects: "'path' or 'command'",
  byDefault: 'a TCP connection to the port or socket',
  excluded: [['path', 'command']],
})
