// A real login of the agent after it configured sshd; only that proves that accounts, files and forced command fit. The
// key and its throw-away authority live in memory, and are trusted, for seconds, and allow only `probe`.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SSH, sshPrincipal } from '@berth/shared'
import { ed25519PublicKey, parsePublicKey, signCertificate } from '@berth/shared/ssh'
import { SSHD } from '../../limits/ssh.ts'
import { locateProgram, runProgram } from '../../machine/process/programs.ts'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount } from '../paths.ts'
import type { SshSessionServer } from '../sessions/session-server.ts'
import { withProbeAuthority } from './trust-files.ts'

interface LoginPlace {
  address: string
  port: number
  /** `ssh-ed25519 AAAA…` */
  hostKey: string
}

async function makeKey(folder: string): Promise<string> {
  const file = join(folder, 'id')
  const argv = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'probe', '-f', file]
  const made = await runProgram(argv, { timeoutMs: SSHD.programMs })
  if (made.code !== 0) throw new Error(`ssh-keygen: ${made.stderr.trim()}`)
  return file
}

/** Why the login failed; undefined when it worked. */
export async function logIn(
  settings: AgentSettings,
  sessionServer: SshSessionServer,
  serverId: number,
  at: LoginPlace,
): Promise<string | undefined> {
  if (!locateProgram('ssh')) return undefined // no client to try with; sshd -T was checked
  const folder = mkdtempSync(join(tmpdir(), 'berth-probe-'))
  try {
    const { privateKey } = generateKeyPairSync('ed25519')
    const authority = ed25519PublicKey(privateKey)
    const id = await makeKey(folder)
    const now = Math.floor(Date.now() / 1_000)
    const serial = randomBytes(8).readBigUInt64BE() >> 1n
    const certificate = await signCertificate(
      parsePublicKey(readFileSync(`${id}.pub`, 'utf8')),
      {
        kind: 'user',
        serial,
        keyId: `probe;server=${serverId}`,
        principals: [sshPrincipal(serverId, 'berth-ssh')],
        validAfter: now - SSH.backdateSeconds,
        validBefore: now + SSHD.probeCertificateSeconds,
        criticalOptions: new Map(),
        extensions: new Map(),
      },
      { publicKey: authority, sign: (bytes) => sign(null, bytes, privateKey) },
    )
    writeFileSync(`${id}-cert.pub`, `${certificate}\n`)
    writeFileSync(join(folder, 'known_hosts'), `berth-probe ${at.hostKey}\n`)
    const argv = sshArguments(folder, relayAccount(settings, 'berth-ssh'), at)
    const done = await sessionServer.probing(authority, () =>
      withProbeAuthority(settings, authority, () =>
        runProgram(argv, { timeoutMs: SSHD.loginMs, env: { PATH: '/usr/bin:/bin', HOME: folder } }),
      ),
    )
    if (done.code === 0) return undefined
    return done.stderr.trim().slice(0, 300) || `ssh ended with ${done.code}`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function sshArguments(folder: string, account: string, at: LoginPlace): string[] {
  const options = {
    IdentityFile: join(folder, 'id'),
    CertificateFile: join(folder, 'id-cert.pub'),
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    UserKnownHostsFile: join(folder, 'known_hosts'),
    GlobalKnownHostsFile: '/dev/null',
    StrictHostKeyChecking: 'yes',
    HostKeyAlias: 'berth-probe',
    HostKeyAlgorithms: 'ssh-ed25519',
    PreferredAuthentications: 'publickey',
    BatchMode: 'yes',
    ConnectTimeout: '10',
    LogLevel: 'ERROR',
  }
  const flags = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const to = ['--', `${account}@${at.address}`, 'probe']
  return ['ssh', '-F', 'none', '-T', '-p', String(at.port), ...flags, ...to]
}
