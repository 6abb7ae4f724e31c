// Parses SSH host keys of forges: lines of known_hosts, output of ssh-keyscan, fingerprints. No I/O.
import { createHash } from 'node:crypto'
import type { RepositoryAddress } from '@berth/shared'

export interface HostKey {
  /** ssh-ed25519, ecdsa-sha2-nistp256, ssh-rsa, … */
  type: string
  /** Base64, as in a line of known_hosts. */
  key: string
  /** `SHA256:…`, as ssh-keygen and forges show it. */
  fingerprint: string
}

interface SshHost {
  host: string
  port: number
}

/** Undefined if the repository is not read over ssh. */
export function sshHostOf({ url, host, transport }: RepositoryAddress): SshHost | undefined {
  if (transport !== 'ssh') return undefined
  const port = url.startsWith('ssh://') ? /^ssh:\/\/[^/]*:([0-9]+)\//.exec(url)?.[1] : undefined
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return { host: bare, port: Number(port ?? 22) }
}

/** The name that ssh writes to known_hosts. */
export const knownHostsName = ({ host, port }: SshHost): string =>
  port === 22 ? host : `[${host}]:${port}`

const KEY = /^([a-z0-9@.-]{1,64}) ([A-Za-z0-9+/]{16,10000}={0,2})$/

const toHostKey = (text: string): HostKey | undefined => {
  const [, type, key] = KEY.exec(text) ?? []
  if (!type || !key) return undefined
  const digest = createHash('sha256').update(Buffer.from(key, 'base64')).digest('base64')
  return { type, key, fingerprint: `SHA256:${digest.replace(/=+$/, '')}` }
}

/** Parses lines `host type key`, of one host if it is named. Skips comments and anything else. */
export function parseHostKeys(text: string, name?: string): HostKey[] {
  const found = text.split('\n').flatMap((line) => {
    const space = line.indexOf(' ')
    if (space < 1 || line.startsWith('#')) return []
    if (name !== undefined && line.slice(0, space) !== name) return []
    return toHostKey(line.slice(space + 1).trim()) ?? []
  })
  return [...new Map(found.map((one) => [one.fingerprint, one])).values()]
}

export const knownHostsLine = (name: string, { type, key }: HostKey): string =>
  `${name} ${type} ${key}`
