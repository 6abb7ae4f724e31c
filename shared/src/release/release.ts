// A release as both ends see it: the manifest of the agents' packages, its Ed25519 signature, and the order of versions.
import { createPublicKey, verify } from 'node:crypto'

/** Beside the packages that a control plane offers; the signature is a file of 64 raw bytes. */
export const AGENT_MANIFEST = 'berth-agents.json'
export const AGENT_MANIFEST_SIGNATURE = `${AGENT_MANIFEST}.sig`
/** In the folder of an installed release: its public key, and its version and counter. */
export const RELEASE_KEY = 'release.pub'
export const RELEASE_FACTS = 'release.json'

/** Six digests and names; a manifest over this size is none. */
export const MANIFEST_BYTES = 16_384

const VERSION = /^\d{1,6}\.\d{1,6}\.\d{1,6}(-[0-9A-Za-z.-]{1,40})?$/
const FILE = /^berth-agent-[a-z0-9-]{1,32}\.tar\.gz$/
const DIGEST = /^[0-9a-f]{64}$/
const PACKAGE_BYTES = 1_024 ** 3

export interface ReleaseFacts {
  version: string
  /** Rises with each release. */
  counter: number
}

export interface AgentPackage {
  file: string
  sha256: string
  bytes: number
}

export interface AgentManifest extends ReleaseFacts {
  /** The oldest control plane that this agent works with. */
  minimum_control_plane: string
  /** By platform: linux-x64, linux-arm64. */
  platforms: Record<string, AgentPackage>
}

const isCount = (n: unknown): boolean => Number.isSafeInteger(n) && (n as number) > 0

/** Checked by hand: the daemon of an agent reads it, and a schema library would cost its memory. */
export function isReleaseFacts(found: Partial<ReleaseFacts>): found is ReleaseFacts {
  return VERSION.test(found.version ?? '') && isCount(found.counter)
}

function isPackage({ file = '', sha256 = '', bytes = 0 }: Partial<AgentPackage>): boolean {
  return FILE.test(file) && DIGEST.test(sha256) && isCount(bytes) && bytes <= PACKAGE_BYTES
}

/** Throws a sentence. Call it after the signature was verified. */
export function readAgentManifest(bytes: Uint8Array): AgentManifest {
  const broken = new Error('The manifest is not one of an agent release.')
  if (bytes.length > MANIFEST_BYTES) throw broken
  let found: Partial<AgentManifest>
  try {
    found = JSON.parse(Buffer.from(bytes).toString('utf8')) as Partial<AgentManifest>
  } catch {
    throw broken
  }
  const { minimum_control_plane = '', platforms } = found
  if (!isReleaseFacts(found) || !VERSION.test(minimum_control_plane) || !platforms) throw broken
  if (!Object.values(platforms).every(isPackage)) throw broken
  return { version: found.version, counter: found.counter, minimum_control_plane, platforms }
}

/** False also for a key or a signature that is none. */
export function isSignedBy(
  publicKeyPem: string,
  bytes: Uint8Array,
  signature: Uint8Array,
): boolean {
  try {
    const key = createPublicKey(publicKeyPem)
    return key.asymmetricKeyType === 'ed25519' && verify(null, bytes, key, signature)
  } catch {
    return false
  }
}

const numbers = (version: string): number[] =>
  version.split('-', 1)[0]?.split('.').map(Number) ?? []

/** Negative: `a` is older. A pre-release is older than its release; two of them compare as text. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [numbers(a), numbers(b)]
  for (const i of [0, 1, 2]) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0)
    if (difference !== 0) return difference
  }
  const pre = (version: string): string => version.slice(version.split('-', 1)[0]?.length)
  const [mine, theirs] = [pre(a), pre(b)]
  if (mine === theirs) return 0
  if (mine === '' || theirs === '') return mine === '' ? 1 : -1
  return mine < theirs ? -1 : 1
}
