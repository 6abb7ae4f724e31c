// Who gets which SSH certificate: what each purpose requires, what prevents it, and the certificate's contents. Values
// in, values out; callers do the signing and supply times and random numbers.
import {
  GRANT_EXTENSION,
  SSH,
  type SshAccount,
  type SshGrant,
  type SshVerb,
  sshPrincipal,
} from '@berth/shared'
import type { Permission, SshCertificateStatus, SshPurpose } from '@berth/shared/api'
import { type Caller, mayChangeProtected } from '../core/access.ts'

export interface AskedGrant {
  purpose: SshPurpose
  /** Null for the whole server, which allows only a shell. */
  environmentId: number | null
  ttlSeconds: number
}

interface Terms {
  permission: Permission
  account: SshAccount
  can: SshVerb[]
  sessionSeconds: number
}

/** The table of purposes. */
export function termsOf(asked: Pick<AskedGrant, 'purpose' | 'environmentId'>): Terms {
  switch (asked.purpose) {
    case 'logs':
      return {
        permission: 'read',
        account: 'berth-ssh',
        can: ['logs'],
        sessionSeconds: SSH.logsSessionSeconds,
      }
    case 'artifact':
      return {
        permission: 'read',
        account: 'berth-ssh',
        can: ['artifact'],
        sessionSeconds: SSH.artifactSessionSeconds,
      }
    case 'shell': {
      const whole = asked.environmentId === null
      return {
        permission: whole ? 'server:write' : 'ssh',
        account: 'berth-shell',
        can: whole ? ['server'] : ['shell', 'exec'],
        sessionSeconds: SSH.shellSessionSeconds,
      }
    }
    // the permission of a shell, which could do the same, but an account without a terminal
    case 'forward':
      return {
        permission: 'ssh',
        account: 'berth-ssh',
        can: ['forward'],
        sessionSeconds: SSH.forwardSessionSeconds,
      }
    case 'copy':
      return {
        permission: 'ssh',
        account: 'berth-ssh',
        can: ['copy'],
        sessionSeconds: SSH.copySessionSeconds,
      }
  }
}

/** Everything belongs to an environment, but a shell may be for the whole server. */
export const needsEnvironment = (purpose: SshPurpose): boolean => purpose !== 'shell'

export interface GrantFacts {
  /** `sshOff`: the agent reports that no user can connect. */
  server: { joined: boolean; shellEnabled: boolean; sshOff: boolean }
  environment: { protected: boolean; ownerId: number; removing: boolean } | undefined
}

type GrantDecision =
  | { kind: 'granted' }
  | { kind: 'protected' }
  | { kind: 'removing' }
  | { kind: 'shell_disabled' }
  | { kind: 'server_not_ready' }
  | { kind: 'ssh_unavailable' }

/** What prevents a grant to a caller with the permission. Checks protection first, as everywhere. */
export function decideGrant(caller: Caller, asked: AskedGrant, facts: GrantFacts): GrantDecision {
  const { environment, server } = facts
  const enters = !['logs', 'artifact'].includes(asked.purpose)
  if (enters && environment && !mayChangeProtected(caller, environment))
    return { kind: 'protected' }
  if (environment?.removing) return { kind: 'removing' }
  if (enters && !environment && !server.shellEnabled) return { kind: 'shell_disabled' }
  if (!server.joined) return { kind: 'server_not_ready' }
  return server.sshOff ? { kind: 'ssh_unavailable' } : { kind: 'granted' }
}

/** How users connect to a server. */
interface SshEndpoint {
  /** `unknown` before the agent's first report. */
  state: 'ready' | 'off' | 'unknown'
  /** A configured port wins over the one that the agent set up. */
  port: number
  /** Why no user can connect, or why the port is not the usual one. */
  reason: string | null
}

export function sshEndpointOf(server: {
  sshPort: number
  host: {
    ssh?: { isOff?: boolean; port: number } | undefined
    parts: { name: string; reason: string }[]
  } | null
}): SshEndpoint {
  const reported = server.host?.ssh
  const own = reported && !reported.isOff ? reported.port : SSH.port
  return {
    state: reported ? (reported.isOff ? 'off' : 'ready') : 'unknown',
    port: server.sshPort === SSH.port ? own : server.sshPort,
    reason: server.host?.parts.find((part) => part.name === 'sshd')?.reason || null,
  }
}

export interface CertificatePlan extends Terms {
  principal: string
  keyId: string
  /** Name and value; an empty value is a flag. Sorted. */
  extensions: [name: string, value: string][]
  /** Unix seconds. */
  validAfter: number
  validBefore: number
  until: number
}

interface Holder {
  userId: number
  organizationId: number
  serverId: number
}

export function planCertificate(
  asked: AskedGrant,
  holder: Holder,
  serial: string,
  nowMs: number,
): CertificatePlan {
  const terms = termsOf(asked)
  const { userId, organizationId, serverId } = holder
  const now = Math.floor(nowMs / 1_000)
  const until = now + terms.sessionSeconds
  const grant: SshGrant = {
    v: 1,
    server: serverId,
    user: userId,
    organization: organizationId,
    environment: asked.environmentId,
    can: terms.can,
    until,
  }
  const extensions: CertificatePlan['extensions'] = [[GRANT_EXTENSION, JSON.stringify(grant)]]
  if (terms.account === 'berth-shell') extensions.push(['permit-pty', ''])
  return {
    ...terms,
    principal: sshPrincipal(serverId, terms.account),
    keyId: `user=${userId};env=${asked.environmentId ?? '-'};server=${serverId};jti=${serial}`,
    extensions,
    validAfter: now - SSH.backdateSeconds,
    validBefore: now + asked.ttlSeconds,
    until,
  }
}

/** The status in one word, for lists. */
export function certificateStatus(
  row: { signedAt: number | null; revokedAt: number | null; validBefore: number },
  nowMs: number,
): SshCertificateStatus {
  if (row.revokedAt !== null) return 'revoked'
  if (row.signedAt === null) return 'unsigned'
  return row.validBefore <= nowMs ? 'expired' : 'active'
}
