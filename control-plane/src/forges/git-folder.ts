// Creates the private folder of one git call: the deploy key (0600), the known hosts, an empty home. Invariant: the
// folder is deleted however the call ends; the next start removes folders of a killed process. The first host key that
// a project sees is kept, and a different one later fails unless an owner named the one to trust.
import {
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { LOOKS, type RepositoryAddress, type Sensitive } from '@berth/shared'
import type { Address } from './addresses.ts'
import { knownHostsName, sshHostOf } from './host-keys.ts'
import { locateProgram, SYSTEM_PATH } from './programs.ts'

/** A constant, because git passes it to a shell; what varies is in variables of that one process. */
const SSH_COMMAND = [
  'exec "$BERTH_SSH" -F none -o IdentityFile="\\"$BERTH_SSH_KEY\\"" -o IdentitiesOnly=yes -o IdentityAgent=none',
  '-o BatchMode=yes -o StrictHostKeyChecking="$BERTH_SSH_CHECKING" -o UserKnownHostsFile="\\"$BERTH_SSH_KNOWN_HOSTS\\""',
  '-o GlobalKnownHostsFile=/dev/null -o UpdateHostKeys=no -o HashKnownHosts=no -o CheckHostIP=no -o LogLevel=ERROR',
  '-o ForwardAgent=no -o ClearAllForwardings=yes -o PermitLocalCommand=no -o ProxyCommand=none -o ControlPath=none',
  '-o HostName="$BERTH_SSH_ADDRESS" -o HostKeyAlias="$BERTH_SSH_ALIAS" -o CanonicalizeHostname=no',
  '-o ConnectTimeout=10 -o PreferredAuthentications=publickey',
].join(' ')

interface FolderRequest {
  dataDir: string
  projectId: number
  address: RepositoryAddress
  /** Addresses that the guard has checked; git connects to these. */
  pinned: Address[]
  deployKey: Sensitive<Uint8Array>
  /** The only line of known_hosts that counts; null: trust on first use. */
  trusted: string | null
}

export interface GitFolder {
  path: string
  env: Record<string, string>
  /** `-c` options of this call. */
  options: string[]
}

const sessionsFolder = (dataDir: string): string => join(dataDir, 'git-sessions')
const hostsFile = (dataDir: string, projectId: number): string =>
  join(dataDir, 'known-hosts', `p${projectId}`)

/** Runs at the start: removes what a killed process left behind. */
export function clearGitFolders(dataDir: string): void {
  rmSync(sessionsFolder(dataDir), { recursive: true, force: true })
}

function readText(file: string): string {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      return readFileSync(fd, 'utf8').slice(0, LOOKS.knownHostsBytes)
    } finally {
      closeSync(fd)
    }
  } catch {
    return ''
  }
}

/** Returns the known_hosts lines of the keys seen first. */
export const readFirstSeen = (dataDir: string, projectId: number): string =>
  readText(hostsFile(dataDir, projectId))

function httpPort(url: string): string {
  const { port, protocol } = new URL(url)
  return port || (protocol === 'https:' ? '443' : '80')
}

const bracketed = ({ address, family }: Address): string =>
  family === 6 ? `[${address}]` : address

/** libcurl connects to these addresses instead of resolving the name. */
const curlResolve = (address: RepositoryAddress, pinned: Address[]): string =>
  `http.curloptResolve=${address.host}:${httpPort(address.url)}:${pinned.map(bracketed).join(',')}`

const protocols = ({ transport }: RepositoryAddress): string =>
  transport === 'https' || transport === 'ssh' ? 'https:ssh' : transport

export async function withGitFolder<T>(
  request: FolderRequest,
  use: (folder: GitFolder) => Promise<T>,
): Promise<T> {
  const { dataDir, address, pinned } = request
  mkdirSync(sessionsFolder(dataDir), { recursive: true, mode: 0o700 })
  const path = mkdtempSync(join(sessionsFolder(dataDir), 'p'))
  const put = (name: string, content: string | Uint8Array): string => {
    const file = join(path, name)
    writeFileSync(file, content, { mode: 0o600, flag: 'wx' })
    return file
  }
  try {
    mkdirSync(join(path, 'home'), { mode: 0o700 })
    const env: Record<string, string> = {
      PATH: SYSTEM_PATH,
      HOME: join(path, 'home'),
      LC_ALL: 'C',
      GIT_TERMINAL_PROMPT: '0',
      GIT_ASKPASS: '/bin/false',
      SSH_ASKPASS: '/bin/false',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_ALLOW_PROTOCOL: protocols(address),
    }
    const options: string[] = []
    if (address.transport === 'file') {
      // the serving side of a folder checks its owner; only a configuration file reaches it
      env.GIT_CONFIG_GLOBAL = put('config', '[safe]\n\tdirectory = *\n')
      options.push('protocol.file.allow=always')
    } else if (address.transport !== 'ssh') {
      options.push(curlResolve(address, pinned))
    }
    if (address.transport !== 'ssh') return await use({ path, env, options })
    const { trusted } = request
    const before = trusted === null ? readFirstSeen(dataDir, request.projectId) : `${trusted}\n`
    const known = put('known_hosts', before)
    env.GIT_SSH_COMMAND = SSH_COMMAND
    env.GIT_SSH_VARIANT = 'ssh'
    env.BERTH_SSH = locateProgram('ssh') ?? '/usr/bin/ssh'
    env.BERTH_SSH_KEY = put('key', request.deployKey.reveal())
    env.BERTH_SSH_KNOWN_HOSTS = known
    env.BERTH_SSH_ADDRESS = pinned[0]?.address ?? ''
    const host = sshHostOf(address)
    env.BERTH_SSH_ALIAS = host ? knownHostsName(host) : ''
    env.BERTH_SSH_CHECKING = trusted === null ? 'accept-new' : 'yes'
    const result = await use({ path, env, options })
    if (trusted === null) remember(hostsFile(dataDir, request.projectId), before, readText(known))
    return result
  } finally {
    rmSync(path, { recursive: true, force: true })
  }
}

/** Adds new hosts; never replaces a line of a known host. */
function remember(file: string, before: string, after: string): void {
  const hostOf = (line: string): string => line.slice(0, line.indexOf(' '))
  const known = new Set(before.split('\n').map(hostOf))
  const lines = after
    .split('\n')
    .filter((line) => /^[\x21-\x7e]+ [a-z0-9@.-]+ [A-Za-z0-9+/=]+$/.test(line))
    .filter((line) => !known.has(hostOf(line)))
  if (lines.length === 0) return
  mkdirSync(join(file, '..'), { recursive: true, mode: 0o700 })
  const fd = openSync(`${file}.new`, 'w', 0o600)
  try {
    writeFileSync(fd, `${before}${lines.join('\n')}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(`${file}.new`, file)
}
