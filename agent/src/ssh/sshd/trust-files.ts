// The files by which sshd decides who may log in: authorities, principals, revoked serials. Each is replaced atomically
// (written beside, synced, renamed), and sshd reads it at every login without a reload. Invariant: a revocation list
// that ssh-keygen cannot read is never installed, because with a broken one sshd refuses every login.
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SSH_ACCOUNTS, sshPrincipal } from '@berth/shared'
import { formatPublicKey, parsePublicKey, type SshPublicKey } from '@berth/shared/ssh'
import { SSHD } from '../../limits/ssh.ts'
import { replaceFile } from '../../machine/atomic-files.ts'
import { runProgram } from '../../machine/process/programs.ts'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount, sshPaths } from '../paths.ts'

interface SshTrust {
  generation: number
  /** OpenSSH lines. */
  authorities: readonly string[]
  /** Decimal. */
  revoked: readonly string[]
}

const PUBLIC = 0o644

async function keygen(argv: string[]): Promise<void> {
  const done = await runProgram(['ssh-keygen', ...argv], { timeoutMs: SSHD.programMs })
  if (done.code !== 0) throw new Error(`ssh-keygen failed: ${done.stderr.trim().slice(0, 300)}`)
}

/** The list as written by OpenSSH's own program, with one section per authority. Empty is valid. */
async function makeRevocationList(trust: SshTrust): Promise<Buffer> {
  const serials = trust.revoked.filter((serial) => /^[1-9]\d{0,19}$/.test(serial))
  if (serials.length === 0 || trust.authorities.length === 0) return Buffer.alloc(0)
  const folder = mkdtempSync(join(tmpdir(), 'berth-krl-'))
  try {
    const spec = join(folder, 'spec')
    const list = join(folder, 'krl')
    replaceFile(spec, serials.map((serial) => `serial: ${serial}\n`).join(''))
    for (const [n, line] of trust.authorities.entries()) {
      const authority = join(folder, `ca-${n}.pub`)
      replaceFile(authority, `${line}\n`)
      const update = n === 0 ? [] : ['-u']
      const version = ['-z', String(trust.generation)]
      await keygen(['-k', '-q', ...update, '-f', list, ...version, '-s', authority, spec])
    }
    await keygen(['-Q', '-l', '-f', list])
    return readFileSync(list)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Parsed strictly and written again, so that no line of a message reaches sshd unchanged. */
export const readAuthorities = (lines: readonly string[]): SshPublicKey[] =>
  lines.map(parsePublicKey).filter((key) => key.type === 'ssh-ed25519')

export async function writeTrustFiles(
  settings: AgentSettings,
  serverId: number,
  trust: SshTrust,
): Promise<void> {
  const paths = sshPaths(settings)
  const authorities = readAuthorities(trust.authorities).map(formatPublicKey)
  const revoked = await makeRevocationList({ ...trust, authorities })
  for (const folder of [settings.ssh.dir, paths.principals]) {
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    chmodSync(folder, 0o755)
  }
  // revocations take effect before new authorities are trusted
  replaceFile(paths.revoked, revoked, PUBLIC)
  for (const role of SSH_ACCOUNTS) {
    const file = join(paths.principals, relayAccount(settings, role))
    replaceFile(file, `${sshPrincipal(serverId, role)}\n`, PUBLIC)
  }
  replaceFile(paths.authorities, authorities.map((line) => `${line}\n`).join(''), PUBLIC)
}

/** Trusts one authority of the agent's own while `use` runs, for its login after a setup. */
export async function withProbeAuthority<T>(
  settings: AgentSettings,
  key: SshPublicKey,
  use: () => Promise<T>,
): Promise<T> {
  const file = sshPaths(settings).authorities
  const before = readFileSync(file, 'utf8')
  replaceFile(file, `${before}${formatPublicKey(key)}\n`, PUBLIC)
  try {
    return await use()
  } finally {
    replaceFile(file, before, PUBLIC)
  }
}
