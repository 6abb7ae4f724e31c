// The agent's identity in /var/lib/berth/identity. Each certificate gets its own folder, written and synced before a
// rename moves the link `current` to it, so that a crash leaves either the old or the new identity.
//
//   install-id          created once, kept over joins
//   gen-N/              key.pem (0600), certificate.pem, ca.pem, identity.json
//   current → gen-N
//   trust.json          the newest TrustBundle; its CAs replace those of the enrolment
import { randomUUID, X509Certificate } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'
import { DAEMON } from '@berth/shared'
import { replaceFile, syncFolder } from '../../machine/atomic-files.ts'
import type { AgentSettings } from '../../settings.ts'

export interface Identity {
  agentId: string
  serverId: number
  /** Where it joined; renewal after expiry goes there. */
  baseUrl: string
  endpoints: string[]
  /** The certificate's generation, as the control plane counts it. */
  generation: number
  renewAt: string
  sshUserCaKeys: string[]
  key: string
  certificate: string
  /** PEM, one or two. */
  ca: string[]
  trustGeneration: number
}
export type NewIdentity = Omit<Identity, 'trustGeneration'>

export interface Trust {
  generation: number
  tlsCaPem: string[]
  sshUserCaKeys: string[]
  revokedSshSerials: string[]
  /** The authority whose host certificates are valid now; absent: written by an older agent. */
  sshHostCaKey?: string
}

/** A problem that needs an operator; the message says what to do. */
export class IdentityError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'IdentityError'
  }
}

const folder = (s: AgentSettings): string => join(s.stateDir, 'identity')
const current = (s: AgentSettings): string => join(folder(s), 'current')

export const isJoined = (s: AgentSettings): boolean => existsSync(current(s))

export function readInstallId(s: AgentSettings): string {
  const file = join(folder(s), 'install-id')
  if (existsSync(file)) return readFileSync(file, 'utf8').trim()
  mkdirSync(folder(s), { recursive: true, mode: 0o700 })
  const id = randomUUID()
  replaceFile(file, `${id}\n`)
  return id
}

export function readIdentity(s: AgentSettings): Identity {
  if (!isJoined(s)) {
    throw new IdentityError(
      'This server has not joined a control plane. Make a join token on its server page and run: berth-agent join <url> <token>',
    )
  }
  const dir = current(s)
  try {
    const facts = JSON.parse(readFileSync(join(dir, 'identity.json'), 'utf8')) as Omit<
      Identity,
      'key' | 'certificate' | 'ca' | 'trustGeneration'
    >
    const trust = readTrust(s)
    const ca = splitPem(readFileSync(join(dir, 'ca.pem'), 'utf8'))
    return {
      ...facts,
      key: readFileSync(join(dir, 'key.pem'), 'utf8'),
      certificate: readFileSync(join(dir, 'certificate.pem'), 'utf8'),
      ca: trust && trust.tlsCaPem.length > 0 ? trust.tlsCaPem : ca,
      sshUserCaKeys: trust ? trust.sshUserCaKeys : facts.sshUserCaKeys,
      trustGeneration: trust?.generation ?? 0,
    }
  } catch (error) {
    throw new IdentityError(
      `The identity in ${dir} cannot be read (${(error as Error).message}). Join again with a new token: berth-agent join --force <url> <token>`,
      { cause: error },
    )
  }
}

/** Writes the next generation and moves `current` to it; `fresh` (a join) forgets what the previous one trusted. */
export function writeIdentity(s: AgentSettings, identity: NewIdentity, fresh = false): void {
  const { key, certificate, ca, ...facts } = identity
  mkdirSync(folder(s), { recursive: true, mode: 0o700 })
  const name = `gen-${Math.max(0, ...listGenerations(s)) + 1}`
  const dir = join(folder(s), name)
  mkdirSync(dir, { mode: 0o700 })
  replaceFile(join(dir, 'key.pem'), key, 0o600)
  replaceFile(join(dir, 'certificate.pem'), certificate, 0o644)
  replaceFile(join(dir, 'ca.pem'), ca.map((pem) => `${pem.trim()}\n`).join(''), 0o644)
  replaceFile(join(dir, 'identity.json'), `${JSON.stringify(facts, null, 2)}\n`)
  if (fresh) rmSync(join(folder(s), 'trust.json'), { force: true })
  flip(s, name)
  dropFormer(s, name)
}

function flip(s: AgentSettings, name: string): void {
  const temporary = join(folder(s), 'current.tmp')
  rmSync(temporary, { force: true })
  symlinkSync(name, temporary)
  renameSync(temporary, current(s))
  syncFolder(folder(s))
}

function listGenerations(s: AgentSettings): number[] {
  return readdirSync(folder(s))
    .map((name) => /^gen-(\d+)$/.exec(name)?.[1])
    .filter((n) => n !== undefined)
    .map(Number)
}

function dropFormer(s: AgentSettings, name: string): void {
  const former = listGenerations(s)
    .sort((a, b) => b - a)
    .filter((n) => `gen-${n}` !== name)
  for (const n of former.slice(DAEMON.keptGenerations)) {
    rmSync(join(folder(s), `gen-${n}`), { recursive: true, force: true })
  }
}

export function readTrust(s: AgentSettings): Trust | undefined {
  const file = join(folder(s), 'trust.json')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Trust) : undefined
}

/** Why the bundle cannot be installed; undefined when it is on disk. Ignores a lower generation. */
export function installTrust(s: AgentSettings, trust: Trust): string | undefined {
  if (trust.generation <= (readTrust(s)?.generation ?? -1)) return undefined
  for (const pem of trust.tlsCaPem) {
    try {
      if (!new X509Certificate(pem).ca)
        return 'The bundle holds a certificate that is no authority.'
    } catch {
      return 'The bundle holds something that is no certificate.'
    }
  }
  replaceFile(join(folder(s), 'trust.json'), `${JSON.stringify(trust, null, 2)}\n`)
  return undefined
}

const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g
const splitPem = (text: string): string[] => text.match(PEM) ?? []

export const isExpired = ({ certificate }: Identity, nowMs: number): boolean =>
  new X509Certificate(certificate).validToDate.getTime() <= nowMs
