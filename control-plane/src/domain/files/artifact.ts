// Validates an agent's report of a file that an action produced. PURE. Paths are shown and become names of downloads,
// so a path that leaves its folder or moves a cursor is refused.
import { ARTIFACTS } from '@berth/shared'

interface ReportedArtifact {
  fileId: string
  path: string
  sizeBytes: number
  sha256: string
  expiresAt: number
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\\]/

/** Relative, without `..`, without characters that a terminal or a header would interpret. */
const isArtifactPath = (path: string): boolean =>
  path !== '' &&
  path.length <= ARTIFACTS.pathBytes &&
  !CONTROL.test(path) &&
  path.split('/').every((name) => name !== '' && name !== '.' && name !== '..')

/** The part of the report to store; undefined if it is invalid. */
export function acceptArtifact(
  reported: ReportedArtifact,
  now: number,
): ReportedArtifact | undefined {
  const { fileId, path, sizeBytes, sha256, expiresAt } = reported
  if (!UUID.test(fileId) || !isArtifactPath(path) || !/^[0-9a-f]{64}$/.test(sha256))
    return undefined
  if (!(Number.isSafeInteger(sizeBytes) && sizeBytes >= 0)) return undefined
  return {
    ...reported,
    expiresAt: Math.min(Math.max(expiresAt, now), now + ARTIFACTS.retentionMaxMs),
  }
}

/** RFC 6266, for every client: an ASCII name, and the real name beside it. */
export function contentDisposition(path: string): string {
  const name = path.split('/').at(-1) ?? 'file'
  const plain = name.replaceAll(/[^\w.-]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
