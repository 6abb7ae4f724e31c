// What an agent says of a file that an action left, held to what such a file may be. PURE. Paths are shown and become
// names of downloads, so nothing that leads anywhere or moves a cursor is taken.
import { ARTIFACTS } from '@berth/shared'

export interface ReportedArtifact {
  fileId: string
  path: string
  sizeBytes: number
  sha256: string
  expiresAt: number
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\\]/

/** Relative, without a way up, nothing that a terminal or a header would take for its own. */
export const isArtifactPath = (path: string): boolean =>
  path !== '' &&
  path.length <= ARTIFACTS.pathBytes &&
  !CONTROL.test(path) &&
  path.split('/').every((name) => name !== '' && name !== '.' && name !== '..')

/** What can be kept of it; undefined: nothing. */
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

/** RFC 6266, for every client: plain letters, and the name itself beside them. */
export function contentDisposition(path: string): string {
  const name = path.split('/').at(-1) ?? 'file'
  const plain = name.replaceAll(/[^\w.-]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`
}
