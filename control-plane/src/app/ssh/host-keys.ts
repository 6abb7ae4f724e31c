// Signs a server's host key: its agent submits the key and gets a certificate for the server's alias. Invariant: only
// the key comes from the agent; the session's authentication says which server it is.
import { AppError, SSH, sshHostAlias } from '@berth/shared'
import { acceptPublicKey, fingerprintOf, SshKeyError, signCertificate } from '@berth/shared/ssh'
import type { Context } from '../../context.ts'
import { findAgent } from '../../store/servers/agents.ts'
import { findSshHostCertificate, upsertSshHostCertificate } from '../../store/ssh/authorities.ts'
import { auditAgent } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { ensureSshAuthorities, openSshSigner } from './authorities.ts'
import { makeSerial } from './certificates.ts'

interface SignedHostKey {
  certificate: string
  renewAt: Date
}

const refuse = (message: string): AppError => new AppError('permission_denied', message)

function readHostKey(line: string) {
  try {
    const key = acceptPublicKey(line)
    if (key.type === 'ssh-ed25519') return key
  } catch (error) {
    if (!(error instanceof SshKeyError)) throw error
    throw refuse(`The host key was refused: ${error.message}`)
  }
  throw refuse('The host key must be ssh-ed25519: send ssh_host_ed25519_key.pub.')
}

export async function signSshHostKey(
  ctx: Context,
  agentId: string,
  publicKey: string,
): Promise<SignedHostKey> {
  const key = readHostKey(publicKey)
  await ensureSshAuthorities(ctx)
  const serial = makeSerial()
  const { signer, serverId, now } = await change(ctx, async (c) => {
    const agent = await findAgent(c.db, agentId)
    if (!agent || agent.revokedAt !== null || agent.lockedAt !== null)
      throw refuse('This agent is revoked or locked.')
    const former = await findSshHostCertificate(c.db, agent.serverId)
    if (former && c.now - former.issuedAt < SSH.hostCertificateEveryMs)
      throw new AppError('rate_limited', 'A host certificate was made a moment ago.')
    const opened = await openSshSigner(ctx, c.db, 'host')
    const fingerprint = fingerprintOf(key)
    await upsertSshHostCertificate(c.db, {
      serverId: agent.serverId,
      authorityId: opened.authority.id,
      serial: String(serial),
      fingerprint,
      issuedAt: c.now,
      validBefore: (Math.floor(c.now / 1_000) + SSH.hostCertificateSeconds) * 1_000,
    })
    const details = { serial: String(serial), fingerprint }
    const subject: [string, number] = ['server', agent.serverId]
    await auditAgent(c, agentId, 'agent', 'ssh_host_key.sign', subject, details)
    return { signer: opened.signer, serverId: agent.serverId, now: Math.floor(c.now / 1_000) }
  })
  const certificate = await signCertificate(
    key,
    {
      kind: 'host',
      serial,
      keyId: `server=${serverId};jti=${serial}`,
      principals: [sshHostAlias(serverId)],
      validAfter: now - SSH.backdateSeconds,
      validBefore: now + SSH.hostCertificateSeconds,
      criticalOptions: new Map(),
      extensions: new Map(),
    },
    signer,
  )
  const renewAfter = Math.floor(SSH.hostCertificateSeconds * SSH.hostRenewPart)
  return { certificate, renewAt: new Date((now + renewAfter) * 1_000) }
}
