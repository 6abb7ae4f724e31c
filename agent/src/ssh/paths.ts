// Paths of the SSH service, and the names of its accounts. The names use the prefix of the environments' accounts, so
// that several agents on one machine (tests, development) do not conflict.
import { join } from 'node:path'
import type { SshAccount } from '@berth/shared'
import type { AgentSettings } from '../settings.ts'

type Settings = Pick<AgentSettings, 'accountPrefix' | 'runDir' | 'stateDir' | 'ssh'>

const base = (s: Pick<AgentSettings, 'accountPrefix'>): string => s.accountPrefix.replace(/e$/, '')

/** Unix names of the two roles: `berth-ssh` and `berth-shell` on a server. */
export const relayAccount = (s: Pick<AgentSettings, 'accountPrefix'>, role: SshAccount): string =>
  `${base(s)}${role.replace(/^berth-/, '')}`

export const sshPaths = (s: Settings) => ({
  group: `${base(s)}relay`,
  /** The account of a whole-server shell; never a relay. */
  hostAccount: `${base(s)}host`,
  /** Empty, 0755 and owned by root, so that no file can be planted there. */
  home: join(s.ssh.launcher, '..', 'relay-home'),
  authorities: join(s.ssh.dir, 'user_ca_keys'),
  principals: join(s.ssh.dir, 'principals'),
  revoked: join(s.ssh.dir, 'revoked_keys'),
  hostCertificate: join(s.ssh.dir, 'host-cert.pub'),
  /** Of our own sshd. */
  ownConfig: join(s.ssh.dir, 'sshd_config'),
  ownHostKey: join(s.ssh.dir, 'ssh_host_ed25519_key'),
  ownLog: join(s.stateDir, 'berth-sshd.log'),
  ownPidFile: join(s.runDir, 'berth-sshd.pid'),
  dropIns: join(s.ssh.config, '..', 'sshd_config.d'),
  socket: join(s.runDir, 'ssh.sock'),
  /** The folder of the sessions' sockets. */
  sessions: join(s.runDir, 'ssh'),
  /** Written by the person who installed the agent; cannot be changed remotely. */
  localRules: join(s.ssh.dir, '..', 'agent.json'),
})
