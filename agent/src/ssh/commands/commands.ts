// Parses requests over SSH into data, and decides whether a grant covers them. No I/O, so the forced command and the
// agent decide with the same code. Invariant: a shell never reads a word of a request; the environment comes from the
// grant, never from the request.
import { ARTIFACTS, GRANT_EXTENSION, SSH, type SshAccount, type SshGrant } from '@berth/shared'
import { CHANNELS, type SshCertificate } from '@berth/shared/ssh'
import { SSH_SESSIONS } from '../../limits/ssh.ts'

export type Verb =
  | {
      verb: 'logs'
      service: string | null
      tail: number | undefined
      since: string | undefined
      until: string | undefined
      follow: boolean
    }
  | { verb: 'artifact'; artifactId: string; offset: number }
  /** Several files, in order, in one session. */
  | { verb: 'artifacts'; artifactIds: string[] }
  | { verb: 'shell'; service: string | null }
  | { verb: 'exec'; service: string | null; argv: string[] }
  /** Connections to ports of services; a channel names its target by its place. */
  | { verb: 'forward'; targets: ForwardTarget[] }
  | CopyVerb
  | { verb: 'server' }
  /** The agent's own login after it configured sshd; no grant allows it. */
  | { verb: 'probe' }

export interface ForwardTarget {
  service: string | null
  port: number
}

/** Files between the user and a service, as an archive. `from` reads here, the others write here. */
export interface CopyVerb {
  verb: 'copy'
  service: string | null
  /** `file` and `folder`: what arrives. */
  does: 'from' | 'file' | 'folder'
  path: string
  /** The name of what arrives, if `path` is an existing folder. */
  name: string
}

/** The message is for the user; `code` is the exit code. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: number

  constructor(message: string, code = 77) {
    super(message)
    this.code = code
  }
}

export const NOT_AVAILABLE = 44
export const NOT_RUNNING = 69

const WORD = /^[A-Za-z0-9_.:=-]+$/
const SERVICE = /^[a-z0-9][a-z0-9-]{0,62}$/
const ARTIFACT = /^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/
const NUMBER = /^(?:0|[1-9]\d{0,14})$/
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z$/

const PROBE = 'probe'

/** Instead of ids: the ids follow as a line of the input. For the forced command alone. */
export const IDS_FOLLOW = 'artifacts -'

/** `-` or nothing means the only service, or all services for logs. */
function readService(text = '-'): string | null {
  if (text !== '-' && !SERVICE.test(text)) throw new Refusal('That is no name of a service.')
  return text === '-' ? null : text
}

function readTime(text: string): string {
  if (!TIME.test(text) || Number.isNaN(Date.parse(text)))
    throw new Refusal('A time must be like 2026-11-14T07:31:02Z.')
  return text
}

function readNumber(text: string, most: number): number {
  if (!NUMBER.test(text) || Number(text) > most) throw new Refusal('A number is out of range.')
  return Number(text)
}

function readArtifactId(text = ''): string {
  if (!ARTIFACT.test(text)) throw new Refusal('That is no id of an artifact.')
  return text
}

function parseLogs(words: string[]): Verb {
  const isFlag = (word: string | undefined): boolean => word?.startsWith('--') ?? false
  const service = readService(isFlag(words[0]) ? '-' : words.shift())
  const asked: Verb = {
    verb: 'logs',
    service,
    tail: undefined,
    since: undefined,
    until: undefined,
    follow: false,
  }
  for (const word of words) {
    const [name, value = ''] = word.split(/=(.*)/s, 2)
    if (word === '--follow') asked.follow = true
    else if (name === '--tail') asked.tail = readNumber(value, SSH_SESSIONS.tailLines)
    else if (name === '--since') asked.since = readTime(value)
    else if (name === '--until') asked.until = readTime(value)
    else if (word !== '--timestamps') throw new Refusal('That option is unknown.')
  }
  return asked
}

/** Exactly the argv for `execve`. */
function parseArgv(text: string): string[] {
  let argv: unknown
  try {
    if (!/^[A-Za-z0-9_-]+$/.test(text)) throw new Error('not base64url')
    argv = JSON.parse(
      new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'base64url')),
    )
  } catch {
    throw new Refusal('The command must be a JSON array in base64url.')
  }
  const isArgv =
    Array.isArray(argv) &&
    argv.length > 0 &&
    argv.length <= SSH_SESSIONS.argvWords &&
    argv.every((word) => typeof word === 'string' && !word.includes('\0')) &&
    argv[0] !== ''
  if (!isArgv) throw new Refusal('The command must be a JSON array of words without NUL.')
  return argv as string[]
}

/** `db:5432`; `-:5432` for the only service. */
function readTarget(text: string): ForwardTarget {
  const [, service, port = ''] = /^([^:]+):([^:]+)$/.exec(text) ?? []
  const target = { service: readService(service), port: readNumber(port, 65_535) }
  if (target.port === 0) throw new Refusal('A number is out of range.')
  return target
}

const COPIES: readonly string[] = ['from', 'file', 'folder'] satisfies CopyVerb['does'][]

function parseCopy([service, does = '', encoded = '']: string[]): CopyVerb {
  if (!COPIES.includes(does)) throw new Refusal('A copy is from, file or folder.')
  const [path = '', name = ''] = parseArgv(encoded)
  const isName = !name.includes('/') && !['', '.', '..'].includes(name)
  if (Buffer.byteLength(path) > SSH_SESSIONS.pathBytes || (does !== 'from' && !isName))
    throw new Refusal('The path of the copy cannot be used.')
  return { verb: 'copy', service: readService(service), does: does as CopyVerb['does'], path, name }
}

/** Words are separated by one space and have a small alphabet. Throws Refusal. */
export function parseVerb(request: string): Verb {
  if (Buffer.byteLength(request) > SSH_SESSIONS.requestBytes)
    throw new Refusal('The request is too long.')
  const [verb, ...words] = request.split(' ')
  if (words.some((word) => !WORD.test(word)))
    throw new Refusal('The request has characters that no request has.')
  const atMost = (count: number): void => {
    if (words.length > count) throw new Refusal('The request has too many words.')
  }
  switch (verb) {
    case 'logs':
      return parseLogs(words)
    case 'artifact':
      atMost(2)
      return {
        verb,
        artifactId: readArtifactId(words[0]),
        offset: readNumber(words[1] ?? '0', Number.MAX_SAFE_INTEGER),
      }
    case 'artifacts':
      atMost(ARTIFACTS.files)
      if (words.length === 0) throw new Refusal('That is no id of an artifact.')
      return { verb, artifactIds: words.map(readArtifactId) }
    case 'shell':
      atMost(1)
      return { verb, service: readService(words[0]) }
    case 'exec': {
      atMost(2)
      const argv = parseArgv(words.pop() ?? '')
      return { verb, service: readService(words[0]), argv }
    }
    case 'forward':
      atMost(CHANNELS.targets)
      if (words.length === 0) throw new Refusal('Name a service and its port.')
      return { verb, targets: words.map(readTarget) }
    case 'copy':
      atMost(3)
      return parseCopy(words)
    case 'server':
    case PROBE:
      atMost(0)
      return { verb }
    default:
      throw new Refusal(
        'Unknown request. This account knows logs, artifact, artifacts, shell, exec, forward, copy and server; use the berth client.',
      )
  }
}

const isId = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0

/** The grant in a certificate. Throws Refusal. */
export function readGrant(certificate: SshCertificate): SshGrant {
  const text = certificate.extensions.get(GRANT_EXTENSION)
  if (text === undefined) throw new Refusal('This certificate has no grant.')
  let grant: Partial<Record<keyof SshGrant, unknown>>
  try {
    if (text.length > SSH.grantBytes) throw new Error('too long')
    grant = JSON.parse(text)
  } catch {
    throw new Refusal('The grant of this certificate cannot be read.')
  }
  if (grant?.v !== 1)
    throw new Refusal('This agent does not know this version of the grant. Update the agent.')
  const { server, user, organization, environment, can, until } = grant
  const holds =
    [server, user, organization, until].every(isId) &&
    (environment === null || isId(environment)) &&
    Array.isArray(can) &&
    can.every((verb) => typeof verb === 'string')
  if (!holds) throw new Refusal('The grant of this certificate cannot be read.')
  return grant as SshGrant
}

const ACCOUNTS: Record<Verb['verb'], SshAccount> = {
  logs: 'berth-ssh',
  artifact: 'berth-ssh',
  artifacts: 'berth-ssh',
  forward: 'berth-ssh',
  copy: 'berth-ssh',
  probe: 'berth-ssh',
  shell: 'berth-shell',
  exec: 'berth-shell',
  server: 'berth-shell',
}

interface Here {
  serverId: number
  account: SshAccount
  hasTerminal: boolean
  nowSeconds: number
}

/** Throws Refusal unless the grant covers the verb on this server now. */
export function requireGranted(grant: SshGrant, verb: Verb, here: Here): void {
  if (grant.server !== here.serverId) throw new Refusal('This certificate is for another server.')
  if (grant.until <= here.nowSeconds)
    throw new Refusal('The time granted for this session is over. Connect again.')
  const right = verb.verb === 'artifacts' ? 'artifact' : verb.verb
  if (!(grant.can as string[]).includes(right))
    throw new Refusal(`This certificate does not allow ${verb.verb}.`)
  const account = ACCOUNTS[verb.verb]
  if (account !== here.account) throw new Refusal(`${verb.verb} needs the account ${account}.`)
  if ((verb.verb === 'server') !== (grant.environment === null))
    throw new Refusal('This certificate is for something else.')
  if ((verb.verb === 'shell' || verb.verb === 'server') && !here.hasTerminal)
    throw new Refusal('A shell needs a terminal.')
}

/** Every session ends with the user's input; for incompletely sent files that is a failure. */
export const inputEnded = ({ verb }: Verb): { code: number; message?: string } =>
  verb === 'artifact' || verb === 'artifacts'
    ? { code: NOT_AVAILABLE, message: 'Your input ended before everything was sent. Keep it open.' }
    : { code: 0 }

/** For the audit log: what the session reached, without the words of a command. */
export function describeVerb(verb: Verb): string {
  const named = (service: string | null): string => service ?? ''
  if (verb.verb === 'forward') {
    const targets = verb.targets.map(({ service, port }) => `${named(service)}:${port}`)
    return `forward ${targets.join(' ')}`
  }
  if (verb.verb === 'copy')
    return `copy ${verb.does === 'from' ? 'from' : 'to'} ${named(verb.service)}:${verb.path}`
  return verb.verb
}

/** The latest end of a session of this verb, in seconds since the epoch. */
export const sessionEnd = (grant: SshGrant, verb: Verb, nowSeconds: number): number =>
  verb.verb === 'exec' ? Math.min(grant.until, nowSeconds + SSH_SESSIONS.execSeconds) : grant.until
