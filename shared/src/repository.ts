// Decides which repository addresses, refs and commits may reach git. PURE. The control plane checks a new project
// against this allow-list, the agent every assignment before a process starts, so no value can become an option, a
// transport helper (`ext::…`) or a second line. A wrong address is reported, never repaired.
import { REPOSITORY } from './limits/agent.ts'

type Transport = 'https' | 'ssh' | 'http' | 'file'

export interface RepositoryAddress {
  /** As passed to git: scheme in lower case, otherwise unchanged. */
  url: string
  transport: Transport
  /** For messages: git.example.com; empty for a folder. */
  host: string
}

export interface AddressRules {
  /** For tests and the local example. */
  allowFile: boolean
  /** For development: http:// to this machine. */
  allowLoopbackHttp: boolean
}

export type Checked<T> = { ok: true; value: T } | { ok: false; problem: string }

const refuse = (problem: string): { ok: false; problem: string } => ({ ok: false, problem })

const LABEL = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/
const IPV6 = /^\[[0-9A-Fa-f:.]{2,45}\]$/
const USER = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/
/** No quotes, shell characters or spaces, because forges need none. */
const PATH = /^[A-Za-z0-9._~%+@,=:/-]+$/
const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]'])
/** Before a colon, these name a kind of address and never a host: `file:/srv/shop`, `javascript:…`. */
const NO_HOSTS = new Set([
  'http',
  'https',
  'file',
  'ftp',
  'data',
  'javascript',
  'vbscript',
  'mailto',
])
/** Control characters of both planes, and invisible separators and direction marks. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

function checkPath(path: string): string | undefined {
  if (!PATH.test(path)) return 'its path holds characters that no repository path needs'
  let decoded: string
  try {
    decoded = decodeURIComponent(path)
  } catch {
    return 'its path holds a broken percent sign'
  }
  // git decodes the path of ssh:// addresses itself, so the decoded path must be as plain as the given one
  if (decoded !== path && !PATH.test(decoded.replaceAll(' ', ''))) {
    return 'its path hides characters behind percent signs'
  }
  const parts = decoded.split('/')
  if (parts.includes('..') || parts.includes('.')) return "its path holds '.' or '..'"
  if (parts.some((part) => part.startsWith('-'))) return "a part of its path starts with '-'"
  return decoded.replaceAll('/', '') === '' ? 'it names no repository' : undefined
}

const checkHost = (host: string): string | undefined =>
  IPV6.test(host) || host.split('.').every((label) => LABEL.test(label))
    ? undefined
    : 'its host name is not one'

function splitPort(authority: string): { host: string; portProblem: string | undefined } {
  const match = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(authority)
  const port = match?.[2]
  const isBad = port !== undefined && (!/^[0-9]{1,5}$/.test(port) || +port < 1 || +port > 65_535)
  return {
    host: match?.[1] ?? authority,
    portProblem: isBad || !match ? 'its port is not one' : undefined,
  }
}

function checkHttp(
  scheme: 'https' | 'http',
  rest: string,
  rules: AddressRules,
): Checked<RepositoryAddress> {
  const slash = rest.indexOf('/')
  const authority = slash < 0 ? rest : rest.slice(0, slash)
  if (authority.includes('@')) {
    return refuse(
      'The repository address holds a user or a password. Remove it: Berth uses the project’s key.',
    )
  }
  const { host, portProblem } = splitPort(authority)
  if (scheme === 'http' && !(rules.allowLoopbackHttp && LOOPBACK.has(host.toLowerCase()))) {
    return refuse('Repositories are fetched over https or ssh, not over plain http.')
  }
  const problem = checkHost(host) ?? portProblem ?? checkPath(slash < 0 ? '' : rest.slice(slash))
  if (problem) return refuse(`The repository address cannot be used: ${problem}.`)
  return { ok: true, value: { url: `${scheme}://${rest}`, transport: scheme, host } }
}

function checkSsh(
  url: string,
  userAndHost: string,
  path: string,
  withPort: boolean,
): Checked<RepositoryAddress> {
  const at = userAndHost.lastIndexOf('@')
  const user = at < 0 ? undefined : userAndHost.slice(0, at)
  const authority = userAndHost.slice(at + 1)
  const { host, portProblem } = withPort
    ? splitPort(authority)
    : { host: authority, portProblem: undefined }
  const userProblem =
    user === undefined || USER.test(user) ? undefined : 'its user name is not one (or a password)'
  const problem = userProblem ?? checkHost(host) ?? portProblem ?? checkPath(path)
  if (problem) return refuse(`The repository address cannot be used: ${problem}.`)
  return { ok: true, value: { url, transport: 'ssh', host } }
}

export function checkRepositoryUrl(given: string, rules: AddressRules): Checked<RepositoryAddress> {
  if (given === '' || given.length > REPOSITORY.urlLength) {
    return refuse('The project has no repository address, or one that is too long.')
  }
  if (INVISIBLE.test(given) || /[\s\\]/.test(given)) {
    return refuse('The repository address holds spaces, backslashes or invisible characters.')
  }
  if (given.startsWith('-')) return refuse("The repository address starts with '-'.")
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(given)
  if (!scheme) {
    // host:path, as ssh writes it; `name::…` would name a transport helper, which is a program
    const colon = given.indexOf(':')
    const slash = given.indexOf('/')
    const word = given.slice(0, Math.max(0, colon)).toLowerCase()
    if (NO_HOSTS.has(word))
      return refuse(`Repositories are fetched over https or ssh, not over ${word}.`)
    const isScp = colon > 0 && given[colon + 1] !== ':' && (slash < 0 || colon < slash)
    if (isScp) return checkSsh(given, given.slice(0, colon), given.slice(colon + 1), false)
    return refuse('The repository address is neither https://…, ssh://… nor user@host:path.')
  }
  const word = (scheme[1] as string).toLowerCase()
  const rest = given.slice(scheme[0].length)
  if (word === 'https' || word === 'http') return checkHttp(word, rest, rules)
  if (word === 'ssh') {
    const slash = rest.indexOf('/')
    if (slash < 0) return refuse('The repository address cannot be used: it names no repository.')
    return checkSsh(`ssh://${rest}`, rest.slice(0, slash), rest.slice(slash), true)
  }
  if (word === 'file' && rules.allowFile) {
    const problem = rest.startsWith('/') ? checkPath(rest) : 'it is not absolute'
    if (problem) return refuse(`The repository folder cannot be used: ${problem}.`)
    return { ok: true, value: { url: `file://${rest}`, transport: 'file', host: '' } }
  }
  return refuse(`Repositories are fetched over https or ssh, not over ${word}.`)
}

/** git's own rules for ref names, and no leading dash anywhere. Short names are branches. */
export function checkRef(given: string): Checked<string> {
  const shown = given.slice(0, 40).replaceAll(new RegExp(INVISIBLE, 'gu'), '?')
  const bad = (why: string) => refuse(`'${shown}' is not the name of a branch: ${why}.`)
  if (given === '' || given.length > REPOSITORY.refLength) return bad('it is empty or too long')
  if (INVISIBLE.test(given) || /[ ~^:?*[\\\s]/u.test(given)) {
    return bad('it holds spaces, invisible characters or one of ~ ^ : ? * [ \\')
  }
  if (given.includes('..') || given.includes('@{') || given === '@' || given.includes('//')) {
    return bad("it holds '..', '@{' or '//'")
  }
  if (given.startsWith('/') || given.endsWith('/') || given.endsWith('.')) {
    return bad("it starts or ends with '/', or ends with '.'")
  }
  const name = given.startsWith('refs/') ? given : `refs/heads/${given}`
  const parts = name.split('/')
  if (parts.length < 3) return bad('it names no branch')
  for (const part of parts) {
    if (part.startsWith('.') || part.startsWith('-') || part.endsWith('.lock')) {
      return bad("a part of it starts with '.' or '-', or ends with '.lock'")
    }
  }
  return { ok: true, value: name }
}

export function checkCommit(given: string): Checked<string> {
  if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(given)) return { ok: true, value: given }
  const shown = given.slice(0, 40).replaceAll(/[^\x20-\x7e]/g, '?')
  return refuse(`'${shown}' is not a full commit hash.`)
}

/** One line each; ssh reads them from a file of ours. */
export function checkKnownHosts(lines: readonly string[]): Checked<string[]> {
  const isBad = (line: string) => line.length > REPOSITORY.knownHostLength || INVISIBLE.test(line)
  if (lines.length > REPOSITORY.knownHosts || lines.some(isBad)) {
    return refuse('The known host keys of the repository host are not valid known_hosts lines.')
  }
  return { ok: true, value: [...lines] }
}

/** refs/heads/checkout-v2 → checkout-v2; refs/pull/12/head → pull/12/head. */
export const shortRef = (ref: string): string => ref.replace(/^refs\/(?:heads\/|tags\/)?/, '')
