// The server's host certificate over its current host key, requested on the agent's own session. It is renewed at two
// thirds of its life, when the key changed, or when another authority signs now.
import { existsSync, readFileSync } from 'node:fs'
import { SSH, sshHostAlias } from '@berth/shared'
import {
  encodePublicKey,
  formatPublicKey,
  parsePublicKey,
  readCertificate,
  type SshCertificate,
  type SshPublicKey,
} from '@berth/shared/ssh'
import { replaceFile } from '../../machine/atomic-files.ts'

export interface HostKeyFacts {
  /** The file of sshd's public host key. */
  keyFile: string
  certificateFile: string
  serverId: number
  /** The authority that signs now; undefined when not known. */
  authority: string | undefined
}

const isSame = (a: SshPublicKey, b: SshPublicKey): boolean =>
  encodePublicKey(a).equals(encodePublicKey(b))

export function readHostKey(file: string): SshPublicKey {
  return parsePublicKey(readFileSync(file, 'utf8'))
}

const parse = (text: string): SshCertificate =>
  readCertificate(Buffer.from(text.trim().split(' ')[1] ?? '', 'base64'))

function fits(certificate: SshCertificate, key: SshPublicKey, facts: HostKeyFacts): boolean {
  const { principals, kind } = certificate
  const isOurs = kind === 'host' && principals.includes(sshHostAlias(facts.serverId))
  return isOurs && isSame(certificate.key, key)
}

/** Whether no renewal is needed. */
export function isCurrent(facts: HostKeyFacts, nowMs: number): boolean {
  if (!existsSync(facts.certificateFile)) return false
  try {
    const certificate = parse(readFileSync(facts.certificateFile, 'utf8'))
    if (!fits(certificate, readHostKey(facts.keyFile), facts)) return false
    const { authority } = facts
    if (authority && !isSame(certificate.authority, parsePublicKey(authority))) return false
    const { validAfter, validBefore } = certificate
    return nowMs / 1_000 < validAfter + (validBefore - validAfter) * SSH.hostRenewPart
  } catch {
    return false
  }
}

/** Requests a certificate, checks it and installs it. */
export async function renewHostCertificate(
  facts: HostKeyFacts,
  sign: (publicKey: string) => Promise<string>,
): Promise<void> {
  const key = readHostKey(facts.keyFile)
  const text = await sign(formatPublicKey(key))
  if (!fits(parse(text), key, facts))
    throw new Error('The host certificate that came is for another key or name.')
  replaceFile(facts.certificateFile, `${text.trim()}\n`, 0o644)
}
