// Writes a server's SSH sessions to the audit log: one row at the start, one at the end; and keeps the open ones. What a server reports about a
// certificate counts only if the certificate was issued for that server.
import type { SshSessionChanged } from '@berth/shared/wire'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Agent } from '../../store/servers/agents.ts'
import {
  closeSshSession,
  findSshCertificate,
  openSshSession,
} from '../../store/ssh/certificates.ts'
import { auditAgent } from '../core/audit.ts'
import type { Change } from '../core/change.ts'

/** For the list of open sessions; older agents do not name theirs. */
async function recordOpenSession(
  c: Change,
  certificateId: number,
  { sessionId, verb, startedAt, endedAt }: SshSessionChanged,
): Promise<void> {
  if (sessionId === '') return
  const id = short(sessionId)
  if (endedAt) return closeSshSession(c.db, certificateId, id)
  const at = startedAt ? timestampDate(startedAt).getTime() : c.now
  await openSshSession(c.db, { certificateId, sessionId: id, verb: short(verb), startedAt: at })
}

const short = (text: string): string => text.slice(0, 200)

export async function applySshSession(
  c: Change,
  agent: Agent,
  session: SshSessionChanged,
): Promise<void> {
  const serial = String(session.serial)
  const certificate = await findSshCertificate(c.db, agent.serverId, serial)
  const holder = certificate
    ? { user: certificate.holderName, user_id: certificate.userId, key_id: certificate.keyId }
    : { key_id: short(session.keyId) }
  const details = {
    serial,
    ...holder,
    environment_id: session.environmentId || null,
    verb: short(session.verb),
    account: short(session.account),
    ...(session.startedAt ? { started_at: timestampDate(session.startedAt).toISOString() } : {}),
  }
  const { endedAt } = session
  const ended = endedAt && {
    ended_at: timestampDate(endedAt).toISOString(),
    // the reason of the revocation says more than the revocation itself
    reason: certificate?.revokeReason ?? short(session.endReason),
    bytes_sent: Number(session.bytesSent),
    exit_code: session.exitCode ?? null,
  }
  if (certificate) await recordOpenSession(c, certificate.id, session)
  const verb = ended ? 'ssh.session.ended' : 'ssh.session.started'
  await auditAgent(c, agent.id, 'agent', verb, ['server', agent.serverId], { ...details, ...ended })
}
