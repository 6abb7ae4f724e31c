// Decides whether a forced command may have what it requests. Verifies everything again, because the agent trusts the
// group of its socket, not the message. Values in, a decision out; throws Refusal.
import { SSH_ACCOUNTS, type SshAccount, type SshGrant, sshPrincipal } from '@berth/shared'
import {
  encodePublicKey,
  type SshCertificate,
  type SshPublicKey,
  verifyCertificate,
} from '@berth/shared/ssh'
import type { SshSessionRow } from '../../journal/ssh-sessions.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { parseVerb, Refusal, readGrant, requireGranted, type Verb } from '../commands/commands.ts'
import type { Hello } from './frames.ts'

export interface Facts {
  serverId: number
  authorities: readonly SshPublicKey[]
  /** Of the agent's own login; undefined when it is not logging in. */
  probe: SshPublicKey | undefined
  /** Decimal serials. */
  revoked: ReadonlySet<string>
  sessions: readonly SshSessionRow[]
  allowsServerShell: boolean
  nowSeconds: number
}

export type Decision =
  | { kind: 'probe' }
  | {
      kind: 'session'
      verb: Verb
      grant: SshGrant
      account: SshAccount
      certificate: SshCertificate
    }

const isSame = (a: SshPublicKey, b: SshPublicKey): boolean =>
  encodePublicKey(a).equals(encodePublicKey(b))

const isAccount = (text: string): text is SshAccount => SSH_ACCOUNTS.includes(text as SshAccount)

function requireFreeSession(grant: SshGrant, sessions: readonly SshSessionRow[]): void {
  const own = sessions.filter(({ userId }) => userId === grant.user).length
  if (own >= SSH_SESSIONS.perUser)
    throw new Refusal(`You have ${own} sessions on this server already. End one of them.`)
  if (sessions.length >= SSH_SESSIONS.perServer)
    throw new Refusal('This server has as many sessions as it takes. Try again later.')
}

export function decideSession(hello: Hello, facts: Facts): Decision {
  const { nowSeconds, probe, serverId } = facts
  const trusted = probe ? [...facts.authorities, probe] : facts.authorities
  const { account } = hello
  if (!isAccount(account)) throw new Refusal('That is no account of Berth.')
  const certificate = verifyAgain(hello, trusted, nowSeconds)
  if (!certificate.principals.includes(sshPrincipal(serverId, account)))
    throw new Refusal('This certificate is for another server or account.')
  const verb = parseVerb(hello.request)
  if ((verb.verb === 'probe') !== (probe !== undefined && isSame(certificate.authority, probe)))
    throw new Refusal('This certificate does not allow that.')
  if (verb.verb === 'probe') return { kind: 'probe' }
  if (facts.revoked.has(String(certificate.serial)))
    throw new Refusal('This certificate was revoked.')
  const grant = readGrant(certificate)
  requireGranted(grant, verb, {
    serverId,
    account,
    hasTerminal: hello.terminal !== null,
    nowSeconds,
  })
  if (verb.verb === 'server' && !facts.allowsServerShell)
    throw new Refusal('Shells on the whole server are not allowed on this server itself.')
  requireFreeSession(grant, facts.sessions)
  return { kind: 'session', verb, grant, account, certificate }
}

function verifyAgain(
  hello: Hello,
  trusted: readonly SshPublicKey[],
  nowSeconds: number,
): SshCertificate {
  try {
    const blob = Buffer.from(hello.certificate, 'base64')
    return verifyCertificate(blob, trusted, { kind: 'user', nowSeconds })
  } catch (error) {
    throw new Refusal(`Your certificate was refused: ${(error as Error).message}.`)
  }
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) < 100_000_000

/** Parses the first message on the socket. */
export function readHello(payload: Buffer): Hello {
  const said = JSON.parse(payload.toString('utf8')) as Record<string, unknown>
  const { certificate, request, account, pid, terminal } = said
  const texts = [certificate, request, account].every((text) => typeof text === 'string')
  if (!texts || !isCount(pid)) throw new Refusal('The request is not complete.')
  return { ...(said as unknown as Hello), terminal: readSize(terminal) }
}

export function readSize(value: unknown): Hello['terminal'] {
  const { columns, rows } = (value ?? {}) as Record<string, unknown>
  if (!isCount(columns) || !isCount(rows)) return null
  return { columns: Math.min(columns, 1_000), rows: Math.min(rows, 1_000) }
}
