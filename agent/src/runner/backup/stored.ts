// The files of backups: one folder of root for each backup on this server's disk, one file for each part. A part is
// compressed, and encrypted if it leaves the server. Its size and hash are those of the file, and it is read only after
// both were checked. A folder gets its name when everything in it is on disk.
import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream, renameSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import type { Bucket, BucketError } from '@berth/shared/storage'
import {
  type BackupPart,
  BackupPartKind,
  type BackupPartSchema,
  BackupPlace,
  type BackupStorage,
  FailureCode,
  type StoredBackup,
} from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { BACKUPS } from '../../limits/backups.ts'
import { syncFolder } from '../../machine/atomic-files.ts'
import { ensureFolder, environmentPaths } from '../../machine/files.ts'
import type { AgentSettings } from '../../settings.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'

/** Loaded only for tasks that use a bucket, because every runner would start later. */
const loadStorage = () => import('@berth/shared/storage')

/** The storage refused or cannot be reached; its message says why. */
export const isBucketError = (error: unknown): error is BucketError =>
  error instanceof Error && error.name === 'BucketError'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const FILE = /^[a-z0-9][a-z0-9_.-]{0,200}$/

export type Part = MessageInitShape<typeof BackupPartSchema> & {
  file: string
  kind: BackupPartKind
  name: string
}

export const backupFailed = (message: string): StepFailure =>
  new StepFailure(FailureCode.BACKUP_FAILED, message)
export const restoreFailed = (message: string): StepFailure =>
  new StepFailure(FailureCode.RESTORE_FAILED, message)

/** The id becomes the name of a folder, and comes over the wire. */
function checkedId(backupId: string): string {
  if (!UUID.test(backupId)) throw new Error('not the id of a backup')
  return backupId
}

export const backupFolder = (s: AgentSettings, environmentId: number, backupId: string): string =>
  join(environmentPaths(s, environmentId).backups, checkedId(backupId))

/** Where its parts are collected until it is complete. */
export const partialFolder = (s: AgentSettings, environmentId: number, backupId: string): string =>
  `${backupFolder(s, environmentId, backupId)}.partial`

export async function makePartial(folder: string): Promise<void> {
  await mkdir(dirname(dirname(folder)), { recursive: true, mode: 0o711 })
  ensureFolder(dirname(folder), 0o700)
  await mkdir(folder, { mode: 0o700 })
}

export function keepFolder(partial: string, folder: string): void {
  syncFolder(partial)
  renameSync(partial, folder)
  syncFolder(dirname(folder))
}

/** `volume-data.tar.gz`, with `.age` if it is encrypted. */
export function partFile(kind: BackupPartKind, name: string, isEncrypted: boolean): string {
  const age = isEncrypted ? '.age' : ''
  switch (kind) {
    case BackupPartKind.VOLUME:
      return `volume-${name}.tar.gz${age}`
    case BackupPartKind.FOLDER:
      return `shared.tar.gz${age}`
    case BackupPartKind.COMMAND:
      return `command-${name}.gz${age}`
    default:
      throw new Error('a part of an unknown kind')
  }
}

class Meter extends Transform {
  readonly #hash: Hash | undefined
  bytes = 0

  constructor(hash?: Hash) {
    super()
    this.#hash = hash
  }

  override _transform(
    chunk: Buffer,
    _: BufferEncoding,
    done: (e: null, chunk: Buffer) => void,
  ): void {
    this.bytes += chunk.length
    this.#hash?.update(chunk)
    done(null, chunk)
  }
}

/** Writes one part into the folder; the caller removes the folder after a failure. */
export async function writePart(
  folder: string,
  about: { kind: BackupPartKind; name: string; recipient: string | undefined },
  content: Readable,
  signal: AbortSignal,
): Promise<Part> {
  const { kind, name, recipient } = about
  const file = partFile(kind, name, recipient !== undefined)
  const before = new Meter()
  const hash = createHash('sha256')
  const after = new Meter(hash)
  const packed = createGzip({ level: BACKUPS.compressionLevel, chunkSize: BACKUPS.chunkBytes })
  const compressing = pipeline(content, before, packed, { signal })
  compressing.catch(() => undefined) // the pipeline below fails with it
  const stored =
    recipient === undefined ? packed : await (await loadStorage()).encryptFor(recipient, packed)
  const to = createWriteStream(join(folder, file), { mode: 0o600, flags: 'wx', flush: true })
  await Promise.all([compressing, pipeline(stored, after, to, { signal })])
  const size = BigInt(after.bytes)
  return { file, kind, name, size, sha256: hash.digest(), contentSize: BigInt(before.bytes) }
}

const megabytes = (bytes: bigint | number): string =>
  `${(Number(bytes) / 1_024 ** 2).toFixed(1)} MB`

export const showPart = ({ kind, name, size, contentSize }: Part): string => {
  const what =
    kind === BackupPartKind.VOLUME
      ? `volume ${name}`
      : kind === BackupPartKind.COMMAND
        ? `the backup of ${name}`
        : 'the shared folder'
  return `${what}: ${megabytes(contentSize ?? 0)}, stored as ${megabytes(size ?? 0)}`
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** Reads the whole file once. Nothing of it is used if a byte differs from what was stored. */
export async function checkPart(
  folder: string,
  { file, size, sha256 }: BackupPart,
  signal: AbortSignal,
): Promise<void> {
  if (!FILE.test(file)) throw restoreFailed(`The backup names a file that cannot be: ${file}.`)
  const path = join(folder, file)
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) {
    throw restoreFailed(`${file} of this backup is missing. Nothing was changed.`)
  }
  if (BigInt(found.size) !== size) {
    throw restoreFailed(
      `${file} of this backup is damaged: it has ${found.size} bytes instead of ${size}. Nothing was changed.`,
    )
  }
  const hash = createHash('sha256')
  const content = createReadStream(path, { highWaterMark: BACKUPS.chunkBytes, signal })
  for await (const chunk of content) hash.update(chunk as Buffer)
  if (hash.digest('hex') === hex(sha256)) return
  throw restoreFailed(
    `${file} of this backup is damaged: its hash is not the one it was stored with. Nothing was changed.`,
  )
}

/** The content of a checked part. */
export async function openPart(
  folder: string,
  { file }: BackupPart,
  identity: string | undefined,
): Promise<Readable> {
  const stored = createReadStream(join(folder, file), { highWaterMark: BACKUPS.chunkBytes })
  const plain = file.endsWith('.age') ? await decryptPart(stored, file, identity) : stored
  const unpacked = createGunzip({ chunkSize: BACKUPS.chunkBytes })
  // a reader that needs no more closes it; only what else breaks it is an error
  pipeline(plain, unpacked).catch((error: Error) => {
    if (!unpacked.destroyed) unpacked.destroy(error)
  })
  return unpacked
}

async function decryptPart(
  sealed: Readable,
  file: string,
  identity: string | undefined,
): Promise<Readable> {
  const { decryptWith } = await loadStorage()
  const plain = identity === undefined ? undefined : await decryptWith(identity, sealed)
  if (plain) return plain
  throw restoreFailed(
    `${file} was encrypted for another key than that of this organization, so it cannot be read. Nothing was changed.`,
  )
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8')

export function storageOf({ secrets }: Attempt): BackupStorage | undefined {
  return secrets.backupStorage
}

export const identityOf = (attempt: Attempt): string | undefined =>
  textOf(storageOf(attempt)?.identity ?? new Uint8Array()) || undefined

/** The bucket that the control plane named; throws where there must be one. */
export async function openBucket(attempt: Attempt): Promise<Bucket> {
  const storage = storageOf(attempt)
  if (!storage) throw backupFailed('The organization has no storage for backups.')
  const { endpoint, region, bucket, prefix, accessKeyId, secretAccessKey } = storage
  const secret = textOf(secretAccessKey)
  const { Bucket } = await loadStorage()
  return new Bucket({ endpoint, region, bucket, prefix, accessKeyId, secretAccessKey: secret })
}

/** Where the objects of a backup are, with a slash at its end. */
export const objectFolder = (environmentId: number, backupId: string): string =>
  `e${environmentId}/${checkedId(backupId)}/`

/** Copies its parts into a folder of this server, where they are checked like those that were always here. */
export async function downloadParts(
  attempt: Attempt,
  { backupId, environmentId, parts }: StoredBackup,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const bucket = await openBucket(attempt)
  for (const { file } of parts) {
    if (!FILE.test(file)) throw restoreFailed(`The backup names a file that cannot be: ${file}.`)
    try {
      const content = await bucket.read(objectFolder(environmentId, backupId) + file)
      const to = createWriteStream(join(folder, file), { mode: 0o600, flags: 'wx' })
      await pipeline(content, to, { signal })
    } catch (error) {
      if (!isBucketError(error)) throw error
      throw restoreFailed(`${error.message} Nothing was changed.`)
    }
  }
}

export const isInBucket = (place: BackupPlace): boolean => place === BackupPlace.BUCKET
