// The files of one fetch: the deploy key (readable by git's account alone), the known hosts, an empty home, and our ssh
// program. Invariant: closing the session removes all of it; the key outlives no fetch.
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import type { RepositoryAddress } from '@berth/shared'
import type { AgentSettings } from '../../settings.ts'
import { replaceFile } from '../atomic-files.ts'
import { removeTree } from '../files.ts'
import type { Account } from '../process/confinement.ts'
import { locateProgram } from '../process/programs.ts'
import { type GitSession, gitEnvironment } from './git.ts'

/**
 * git starts it as `program [-o …] [-p port] [user@]host command`. The text is constant; parameters come from the
 * environment of that git process. It passes on no other options, and the hostname comes after `--`.
 */
const SSH_PROGRAM = `#!/bin/sh
# Started by git (GIT_SSH) for one fetch; settings come from the environment. Written by Berth, do not edit.
port=
while :; do
  case $1 in
    -p) port=$2; shift 2 ;;
    -o) shift 2 ;;
    -*) echo "berth: unexpected option from git: $1" >&2; exit 2 ;;
    *) break ;;
  esac
done
exec "$BERTH_SSH" -F none -o IdentityFile="$BERTH_SSH_KEY" -o IdentitiesOnly=yes -o IdentityAgent=none \\
  -o BatchMode=yes -o StrictHostKeyChecking="$BERTH_SSH_CHECKING" -o UserKnownHostsFile="$BERTH_SSH_KNOWN_HOSTS" \\
  -o GlobalKnownHostsFile=/dev/null -o UpdateHostKeys=no -o HashKnownHosts=no -o LogLevel=ERROR \\
  -o ForwardAgent=no -o ClearAllForwardings=yes -o PermitLocalCommand=no -o ControlPath=none \\
  -o ConnectTimeout=15 -o ServerAliveInterval=15 -o SendEnv=GIT_PROTOCOL \${port:+-p "$port"} -- "$@"
`

/** Not in the run directory, which is often mounted noexec. */
function ensureSshProgram(settings: AgentSettings): string {
  const file = join(settings.stateDir, 'bin', 'berth-git-ssh')
  if (existsSync(file) && readFileSync(file, 'utf8') === SSH_PROGRAM) return file
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  replaceFile(file, SSH_PROGRAM, 0o755)
  chmodSync(file, 0o755)
  return file
}

interface SessionRequest {
  settings: AgentSettings
  scratch: string
  account: Account | undefined
  attemptId: string
  repository: string
  address: RepositoryAddress
  projectId: number
  deployKey: Uint8Array
  knownHosts: string[]
  signal: AbortSignal
  onText: (chunk: Buffer) => void
}

const projectHosts = (settings: AgentSettings, projectId: number): string =>
  join(settings.stateDir, 'known-hosts', `p${projectId}`)

const readText = (file: string): string => {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      return readFileSync(fd, 'utf8')
    } finally {
      closeSync(fd)
    }
  } catch {
    return ''
  }
}

/** Passes the session to `use` and removes its files afterwards, also after an error. */
export async function withGitSession<T>(
  request: SessionRequest,
  use: (session: GitSession) => Promise<T>,
): Promise<T> {
  const { account, settings, address } = request
  const folder = join(request.scratch, 'git')
  await removeTree(folder)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const give = (path: string): void => {
    if (account) chownSync(path, account.uid, account.gid)
  }
  const put = (name: string, content: string | Uint8Array): string => {
    const file = join(folder, name)
    writeFileSync(file, content, { mode: 0o600, flag: 'wx' })
    give(file)
    return file
  }
  try {
    const isGiven = request.knownHosts.length > 0
    const remembered = projectHosts(settings, request.projectId)
    // an owner named the key to trust, so the key that this server saw first is forgotten for good
    if (isGiven) rmSync(remembered, { force: true })
    const hosts = isGiven ? `${request.knownHosts.join('\n')}\n` : readText(remembered)
    const hostsFile = put('known_hosts', hosts)
    const key = request.deployKey.length > 0 ? put('key', request.deployKey) : 'none'
    const home = join(folder, 'home')
    mkdirSync(home, { mode: 0o700 })
    const env: Record<string, string> = {
      ...gitEnvironment(home),
      GIT_ALLOW_PROTOCOL: allowedProtocols(address),
      GIT_SSH: ensureSshProgram(settings),
      GIT_SSH_VARIANT: 'ssh',
      BERTH_SSH: locateProgram('ssh') ?? 'ssh',
      BERTH_SSH_KEY: key,
      BERTH_SSH_KNOWN_HOSTS: hostsFile,
      BERTH_SSH_CHECKING: isGiven ? 'yes' : 'accept-new',
    }
    if (address.transport === 'file') {
      // the serving git of a local folder checks its owner, and reads this setting only from a configuration file
      env.GIT_CONFIG_GLOBAL = put('config', '[safe]\n\tdirectory = *\n')
    }
    give(home)
    give(folder)
    const { attemptId, repository, signal, onText } = request
    const result = await use({ account, attemptId, repository, address, env, signal, onText })
    if (!isGiven && address.transport === 'ssh') remember(remembered, hosts, hostsFile)
    return result
  } finally {
    if (!removeOwn(folder)) await removeTree(folder)
  }
}

/** Removes the files of the session; false when git left others. Only root can replace this folder. */
function removeOwn(folder: string): boolean {
  try {
    for (const name of ['key', 'known_hosts', 'config']) rmSync(join(folder, name), { force: true })
    rmdirSync(join(folder, 'home'))
    rmdirSync(folder)
    return true
  } catch {
    return false
  }
}

const allowedProtocols = ({ transport }: RepositoryAddress): string =>
  transport === 'https' || transport === 'ssh' ? 'https:ssh' : transport

/** Keeps the first host key that a project sees, for all its environments; a different key later fails. */
function remember(file: string, before: string, seen: string): void {
  const hostOf = (line: string): string => line.slice(0, line.indexOf(' '))
  const known = new Set(before.split('\n').map(hostOf))
  const lines = readText(seen)
    .split('\n')
    .filter((line) => /^[\x21-\x7e]+ [a-z0-9@.-]+ [A-Za-z0-9+/=]+$/.test(line))
    .filter((line) => !known.has(hostOf(line)))
  if (lines.length === 0) return
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  replaceFile(file, `${before}${lines.join('\n')}\n`)
}
