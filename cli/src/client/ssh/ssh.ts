// One connection to a server with a certificate issued for it: a new key in memory, a temporary folder of its own, and
// the system's ssh without the user's configuration, agent or known hosts. Invariants: everything in the server's
// answer is checked before it becomes an argument; no shell is involved; first contact asks no question, because the
// host authority came with the certificate.
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isHostOrAddress, SshCertificate, type SshPurpose } from '@berth/shared/api'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import type { Io } from '../../terminal/io.ts'
import type { Api, Read } from '../api.ts'
import { ApiFailure } from '../problem.ts'
import { makeEphemeralKey } from './key.ts'

export interface SshPlace {
  server: { id: number; name: string }
  /** null: the whole server. */
  environmentId: number | null
}

/** A certificate and the address it is for. */
export interface SshEndpoint {
  reply: SshCertificate
  place: SshPlace
  /** Arguments of ssh for these words of the forced command. */
  argv(words: readonly string[], terminal?: boolean): string[]
}

/** The caller must close it. */
export interface OpenEndpoint extends SshEndpoint {
  close(): void
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9.-]*$/
const KEY_LINE = /^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3}( [\x20-\x7e]*)?$/
const FOLDER = /^berth-ssh-(\d+)-[A-Za-z0-9]{6}$/

/** Values that become an argument or a line of a file must have the expected form. */
function checkReply(reply: SshCertificate): SshCertificate {
  const names: [string, boolean][] = [
    ['host', NAME.test(reply.host) || isHostOrAddress(reply.host)],
    ['user', NAME.test(reply.user)],
    ['host_alias', NAME.test(reply.host_alias)],
    ['port', reply.port >= 1 && reply.port <= 65_535],
    ['certificate', KEY_LINE.test(reply.certificate)],
    ['host_ca', reply.host_ca.length > 0 && reply.host_ca.every((key) => KEY_LINE.test(key))],
  ]
  const wrong = names.find(([, ok]) => !ok)
  if (!wrong) return reply
  const message = `the server's answer has an unusable ${wrong[0]}; no connection was made`
  throw new ApiFailure('nonsense', EXIT.error, message)
}

/** Requests again after a lost answer: an extra certificate does no harm, and answers are never replayed. */
export async function requestCertificate(
  api: Api,
  io: Io,
  place: SshPlace,
  asked: { publicKey: string; purpose: SshPurpose; ttlSeconds?: number },
): Promise<Read<SshCertificate>> {
  const path = `/api/servers/${place.server.id}/ssh`
  const body = {
    public_key: asked.publicKey,
    purpose: asked.purpose,
    environment_id: place.environmentId,
    ...(asked.ttlSeconds === undefined ? {} : { ttl_seconds: asked.ttlSeconds }),
  }
  for (let attempt = 0; ; attempt++) {
    try {
      const idempotencyKey = randomUUID()
      const options = { body, idempotencyKey, retries: 0, expect: 201 }
      const read = await api.post(path, SshCertificate, options)
      checkReply(read.value)
      return read
    } catch (error) {
      const isPassing =
        error instanceof ApiFailure &&
        (error.kind === 'no_answer' || [502, 503, 504].includes(error.status ?? 0))
      if (!isPassing || attempt >= CLIENT.retries) throw error
      await io.sleep(CLIENT.retryMs * 2 ** attempt)
    }
  }
}

export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Removes folders of clients that were killed. */
function sweep(parent: string, now: number): void {
  for (const name of readdirSync(parent)) {
    const pid = Number(FOLDER.exec(name)?.[1] ?? 0)
    if (pid === 0 || isAlive(pid)) continue
    try {
      const path = join(parent, name)
      const { uid, mtimeMs } = statSync(path)
      const isMine = process.getuid === undefined || uid === process.getuid()
      if (isMine && now - mtimeMs > CLIENT.sshFolderStaleMs) rmSync(path, { recursive: true })
    } catch {
      // another client was faster, or no permission
    }
  }
}

/** Mode 0700, for this user and this connection only. */
function makeFolder(io: Io): string {
  const parents = [io.env.XDG_RUNTIME_DIR, io.env.TMPDIR, tmpdir()]
  for (const parent of parents) {
    if (!parent) continue
    try {
      const made = mkdtempSync(join(parent, `berth-ssh-${process.pid}-`))
      sweep(parent, Date.now())
      return made
    } catch {
      // not writable: try the next
    }
  }
  throw new CliError(EXIT.error, 'there is no folder for temporary files', 'set TMPDIR to one')
}

/** ssh splits such values at blanks and expands % in them. */
function optionPath(path: string): string {
  if (/^[\w./:\\-]+$/.test(path)) return path
  if (/["$\p{Cc}]/u.test(path)) {
    throw new CliError(EXIT.error, 'the temporary folder has a name that ssh cannot read')
  }
  return `"${path.replaceAll('%', '%%')}"`
}

function sshArguments(
  reply: SshCertificate,
  files: { key: string; certificate: string; knownHosts: string },
  platform: NodeJS.Platform,
  words: readonly string[],
  terminal: boolean,
): string[] {
  const options = {
    IdentityFile: optionPath(files.key),
    CertificateFile: optionPath(files.certificate),
    IdentitiesOnly: 'yes', // or keys of the user's agent use up the server's tries
    IdentityAgent: 'none',
    UserKnownHostsFile: optionPath(files.knownHosts),
    GlobalKnownHostsFile: platform === 'win32' ? 'NUL' : '/dev/null',
    StrictHostKeyChecking: 'yes',
    UpdateHostKeys: 'no',
    HostKeyAlias: reply.host_alias,
    HostKeyAlgorithms: 'ssh-ed25519-cert-v01@openssh.com',
    PreferredAuthentications: 'publickey',
    BatchMode: 'yes',
    // hardware-accelerated ciphers first, because files are large; only ciphers that ssh accepts by default
    Ciphers:
      'aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr',
    ConnectTimeout: '10',
    ServerAliveInterval: '15',
    ForwardAgent: 'no',
    LogLevel: 'ERROR',
  }
  const flags = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const to = `${reply.user}@${reply.host}`
  const mode = terminal ? '-t' : '-T'
  return ['-F', 'none', mode, '-p', String(reply.port), ...flags, '--', to, ...words]
}

/** The caller must always close it; `withCertificate` does so itself. */
export async function openEndpoint(
  { api, io }: { api: Api; io: Io },
  place: SshPlace,
  purpose: SshPurpose,
): Promise<OpenEndpoint> {
  const key = makeEphemeralKey()
  const asked = { publicKey: key.publicLine, purpose }
  const { value: reply } = await requestCertificate(api, io, place, asked)
  const folder = makeFolder(io)
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const release = io.atExit(remove)
  const close = () => {
    remove()
    release()
  }
  try {
    const write = (name: string, text: string): string => {
      const path = join(folder, name)
      writeFileSync(path, text, { mode: 0o600, flag: 'wx' })
      return path
    }
    const known = reply.host_ca.map((ca) => `@cert-authority ${reply.host_alias} ${ca}\n`)
    const files = {
      key: write('id', key.privateFile),
      certificate: write('id-cert.pub', `${reply.certificate}\n`),
      knownHosts: write('known_hosts', known.join('')),
    }
    const argv: SshEndpoint['argv'] = (words, terminal = false) =>
      sshArguments(reply, files, io.platform, words, terminal)
    return { reply, place, argv, close }
  } catch (error) {
    close()
    throw error
  }
}

export async function withCertificate<T>(
  by: { api: Api; io: Io },
  place: SshPlace,
  purpose: SshPurpose,
  use: (endpoint: SshEndpoint) => Promise<T>,
): Promise<T> {
  const endpoint = await openEndpoint(by, place, purpose)
  try {
    return await use(endpoint)
  } finally {
    endpoint.close()
  }
}
