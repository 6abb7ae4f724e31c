// Turns the output of git and ssh into a sentence that a person can act on. PURE. The patterns are English, as git runs
// with LC_ALL=C. Unrecognised text is passed on, cut.
/** `damaged` concerns the local copy; every other value concerns the remote or the network. */
type GitTrouble = 'refused' | 'missing_ref' | 'damaged' | 'other'

export interface GitFailure {
  trouble: GitTrouble
  message: string
}

interface Rule {
  pattern: RegExp
  trouble: GitTrouble
  say: (host: string, match: RegExpExecArray) => string
}

const RULES: Rule[] = [
  {
    // lines of the remote begin with `remote:`; a killed git leaves its lock
    pattern:
      /^(?:fatal|error): (?:not a git repository: '|bad config |object file .* is empty|loose object .* is corrupt|inflate: data stream error|.*Unable to create '.*\.lock': File exists)/m,
    trouble: 'damaged',
    say: () => 'The local copy of the repository is damaged.',
  },
  {
    pattern: /REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed/,
    trouble: 'other',
    say: (host) =>
      `The host key of ${host} is not the expected one. If the forge changed it on purpose, an owner of the project compares and trusts the new one: berth project trust-host-key.`,
  },
  {
    pattern: /Permission denied \(|Load key .*(?:invalid format|error in libcrypto)/,
    trouble: 'other',
    say: (host) =>
      `${host} refused the project's key. Add it to the repository as a read-only deploy key.`,
  },
  {
    pattern: /Authentication failed|could not read Username|returned error: 40[13]\b/,
    trouble: 'other',
    say: (host) =>
      `${host} asks for a password for this repository. Use an ssh address and the project's deploy key.`,
  },
  {
    pattern: /Could not resolve host(?:name)?[: ]/i,
    trouble: 'other',
    say: (host) => `The name ${host} cannot be resolved on this server.`,
  },
  {
    pattern: /timed out|Connection timeout|Operation timed out/i,
    trouble: 'other',
    say: (host) => `No answer from ${host} in 15 s.`,
  },
  {
    pattern: /Connection refused|Failed to connect to|No route to host|Network is unreachable/i,
    trouble: 'other',
    say: (host) => `${host} cannot be reached from this server.`,
  },
  {
    pattern: /couldn't find remote ref (\S+)/i,
    trouble: 'missing_ref',
    say: (_host, match) => `${match[1]} does not exist in the repository.`,
  },
  {
    // GitHub, GitLab and Gitea answer the same for "does not exist" and "this key may not see it"
    pattern:
      /Repository not found|repository '.*' not found|does not appear to be a git repository|returned error: 404|No such (?:project|repository)/i,
    trouble: 'other',
    say: (host) =>
      `The repository was not found${host ? ` on ${host}` : ''}, or the project's key may not read it.`,
  },
  {
    pattern:
      /not our ref|unadvertised object|remote error: want |no such remote ref|Server does not allow request/i,
    trouble: 'refused',
    say: (host) => `${host || 'The repository'} does not hand out this commit by its hash.`,
  },
  {
    pattern: /redirect/i,
    trouble: 'other',
    say: (host) => `${host} redirects to another address. Use the final address of the repository.`,
  },
  {
    pattern: /SSL certificate problem|certificate verify failed|server certificate/i,
    trouble: 'other',
    say: (host) => `The certificate of ${host} cannot be verified on this server.`,
  },
  {
    pattern: /No space left on device/i,
    trouble: 'other',
    say: () => 'The disk of this server is full.',
  },
]

export const isDiskFull = (text: string): boolean =>
  /No space left on device|ENOSPC|Disk quota exceeded/i.test(text)

/** `errorText` is the whole stderr of git and ssh. */
export function explainGit(errorText: string, host: string): GitFailure {
  for (const rule of RULES) {
    const match = rule.pattern.exec(errorText)
    if (match) return { trouble: rule.trouble, message: rule.say(host, match) }
  }
  const lines = errorText.split('\n').map((line) => line.trim())
  const last = lines.filter((line) => /^(?:fatal|error|ssh):?/i.test(line)).at(-1)
  const said = (last ?? lines.filter(Boolean).at(-1) ?? 'git said nothing').slice(0, 300)
  return { trouble: 'other', message: `The repository could not be fetched: ${said}` }
}
