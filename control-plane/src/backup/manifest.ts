// What a backup says of itself. `head.json` is its first file, `manifest.json` its last: a backup without it was cut
// off. Everything between is checked against the two.
import { z } from 'zod'
import { BackupError, damaged } from './faults.ts'

/** Rises when a release writes files that this one cannot read. */
export const FORMAT = 1

const table = z.strictObject({
  name: z.string(),
  columns: z.array(z.string()).min(1),
  key: z.array(z.string()).min(1),
})

const head = z.object({
  format: z.literal(FORMAT),
  version: z.string(),
  takenAt: z.number(),
  database: z.enum(['sqlite', 'postgres']),
  migrations: z.array(z.string()),
  tables: z.array(table),
  counters: z.record(z.string(), z.number()),
  /** Says which key encrypts the stored secrets, and reveals nothing of it. */
  keyId: z.string(),
  withLogs: z.boolean(),
  /** For people: what the control plane was started with, without secrets. */
  settings: z.record(z.string(), z.unknown()),
})
export type Head = z.infer<typeof head>

const manifest = z.object({
  tables: z.record(z.string(), z.object({ rows: z.number(), sha256: z.string() })),
  logs: z.object({ files: z.number(), bytes: z.number(), sha256: z.string() }),
})
export type Manifest = z.infer<typeof manifest>

export const HEAD_FILE = 'head.json'
export const MANIFEST_FILE = 'manifest.json'

const parseJson = (text: string, file: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw damaged(`${file} is not readable`, error)
  }
}

/** Refuses the head of a newer format before it looks at the rest, which it may not understand. */
export function parseHead(text: string): Head {
  const value = parseJson(text, HEAD_FILE)
  const { format, version } = (value ?? {}) as { format?: unknown; version?: unknown }
  if (typeof format === 'number' && format > FORMAT) {
    throw new BackupError(
      `The backup was made by a newer Berth (${String(version)}, format ${format}). Install that release or a newer one, then restore.`,
    )
  }
  const parsed = head.safeParse(value)
  if (!parsed.success) throw damaged(`${HEAD_FILE} lacks a part`, parsed.error)
  return parsed.data
}

export function parseManifest(text: string): Manifest {
  const parsed = manifest.safeParse(parseJson(text, MANIFEST_FILE))
  if (!parsed.success) throw damaged(`${MANIFEST_FILE} lacks a part`, parsed.error)
  return parsed.data
}
