// Parses what git prints: lines of `ls-remote` become refs, texts of git and ssh become a code and a message that a
// user can act on. No I/O. Texts are matched in English, because git runs with LC_ALL=C. An unknown text becomes
// "failed" without the forge's own text, which is untrusted.
import { checkCommit, checkRef, shownLine } from '@berth/shared'

const LOOK_CODES = [
  'auth_failed',
  'not_found',
  'timeout',
  'host_key_changed',
  'address_not_allowed',
  'name_not_resolved',
  'unreachable',
  'redirected',
  'certificate_invalid',
  'too_large',
  'busy',
  'failed',
] as const
type LookCode = (typeof LOOK_CODES)[number]

export interface LookFailure {
  code: LookCode
  message: string
}

export interface Refs {
  /** Full name of a ref → commit. Tags are left out, because they are never deployed. */
  refs: Map<string, string>
  /** Short name; undefined if the repository does not report it. */
  defaultBranch: string | undefined
}

const WANTED =
  /^refs\/(?:heads\/.+|pull\/[0-9]+\/head|merge-requests\/[0-9]+\/head|pull-requests\/[0-9]+\/from)$/

/** Skips unknown lines, because a forge may have more kinds of refs. */
export function parseRefs(text: string): Refs {
  const refs = new Map<string, string>()
  let defaultBranch: string | undefined
  for (const line of text.split('\n')) {
    const tab = line.indexOf('\t')
    if (tab < 0) continue
    const [left, name] = [line.slice(0, tab), line.slice(tab + 1)]
    const head = /^ref: refs\/heads\/(.+)$/.exec(left)
    if (head && name === 'HEAD') {
      const branch = head[1] as string
      if (checkRef(branch).ok) defaultBranch = branch
      continue
    }
    if (WANTED.test(name) && checkRef(name).ok && checkCommit(left).ok) refs.set(name, left)
  }
  return { refs, defaultBranch }
}

export interface CommitFacts {
  sha: string
  /** As the commit claims. */
  author: string
  at: number
  subject: string
}

const AUTHOR_CHARS = 200
const SUBJECT_CHARS = 200
const PATH_CHARS = 500

/** Reads `log -z` with four fields for each commit. */
export function parseHistory(text: string): CommitFacts[] {
  const fields = text.split('\0')
  const commits: CommitFacts[] = []
  for (let i = 0; i + 3 < fields.length; i += 4) {
    const [sha = '', author = '', seconds = '', subject = ''] = fields.slice(i, i + 4)
    if (!checkCommit(sha).ok) continue
    commits.push({
      sha,
      author: shownLine(author, AUTHOR_CHARS),
      at: (Number(seconds) || 0) * 1_000,
      subject: shownLine(subject, SUBJECT_CHARS),
    })
  }
  return commits
}

export interface ChangedFile {
  change: 'added' | 'changed' | 'deleted'
  path: string
}

/** Reads `diff-tree -z --name-status`; a name that was cut off at the end is left out. */
export function parseDifference(text: string): ChangedFile[] {
  const fields = text.split('\0')
  const files: ChangedFile[] = []
  for (let i = 0; i + 2 < fields.length; i += 2) {
    const [status = '', path = ''] = fields.slice(i, i + 2)
    const change = status === 'A' ? 'added' : status === 'D' ? 'deleted' : 'changed'
    files.push({ change, path: shownLine(path, PATH_CHARS) })
  }
  return files
}

interface LookContext {
  host: string
  /** The key to add at the forge if it refuses ours. */
  publicKey: string
  isSsh: boolean
}

interface Rule {
  pattern: RegExp
  code: LookCode
  say: (context: LookContext) => string
}

const RULES: Rule[] = [
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed/,
    code: 'host_key_changed',
    say: ({ host }) =>
      `The host key of ${host} is not the known one. If the forge changed it on purpose, an owner of the project compares ` +
      "and trusts the new one: berth project trust-host-key, or the project's settings.",
  },
  {
    pattern: /Permission denied \(|Load key .*(?:invalid format|error in libcrypto)/,
    code: 'auth_failed',
    say: ({ host, publicKey }) =>
      `${host} refused the project's key. Add it to the repository as a read-only deploy key: ${publicKey}`,
  },
  {
    pattern: /Authentication failed|could not read Username|returned error: 40[13]\b/,
    code: 'auth_failed',
    say: ({ host, publicKey }) =>
      `${host} asks for a password for this repository. Use its ssh address and add the project's key there: ${publicKey}`,
  },
  {
    pattern: /Could not resolve host(?:name)?[: ]/i,
    code: 'name_not_resolved',
    say: ({ host }) => `The name ${host} cannot be resolved.`,
  },
  {
    // GitHub, GitLab and Gitea give the same answer for "does not exist" and "this key may not see it"
    pattern:
      /Repository not found|repository '.*' not found|does not appear to be a git repository|returned error: 404|No such (?:project|repository)|could not be found/i,
    code: 'not_found',
    say: ({ host, publicKey, isSsh }) =>
      `The repository was not found${host ? ` on ${host}` : ''}, or the project's key may not read it.` +
      (isSsh ? ` The key is: ${publicKey}` : ''),
  },
  {
    pattern: /timed out|Connection timeout|Operation timed out/i,
    code: 'timeout',
    say: ({ host }) => `No answer from ${host} in time.`,
  },
  {
    pattern: /SSL certificate problem|certificate verify failed|server certificate/i,
    code: 'certificate_invalid',
    say: ({ host }) => `The certificate of ${host} cannot be verified.`,
  },
  {
    pattern: /redirect|returned error: 30[1278]\b/i,
    code: 'redirected',
    say: ({ host }) =>
      `${host} redirects to another address. Use the final address of the repository.`,
  },
  {
    pattern:
      /Connection refused|Failed to connect to|Couldn't connect|No route to host|Network is unreachable|Connection (?:reset|closed)|kex_exchange/i,
    code: 'unreachable',
    say: ({ host }) => `${host} cannot be reached from the control plane.`,
  },
]

export function explainLook(errorText: string, context: LookContext): LookFailure {
  for (const rule of RULES) {
    if (rule.pattern.test(errorText)) return { code: rule.code, message: rule.say(context) }
  }
  const at = context.host ? ` at ${context.host}` : ''
  return { code: 'failed', message: `git could not read the repository${at}.` }
}
