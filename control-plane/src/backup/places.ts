// Where backups are: a folder, or a bucket of S3-compatible storage. Both show a backup only when it is complete.
import { randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, statSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { S3Settings } from '../config.ts'
import { BACKUPS } from '../limits/installation.ts'
import { BackupError } from './faults.ts'
import { timeOfName } from './names.ts'
import type { Place, StoredBackup } from './place.ts'
import { S3Place } from './s3.ts'

const S3_ADDRESS = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/

function parseS3(address: string): { bucket: string; path: string } {
  const [, bucket, path = ''] = S3_ADDRESS.exec(address) ?? []
  if (bucket !== undefined) return { bucket, path: path.replaceAll(/^\/+|\/+$/g, '') }
  throw new BackupError(`${address} is not an address such as s3://bucket/folder.`)
}

/** A folder, or a bucket with an optional folder in it. */
export function openPlace(address: string, s3: S3Settings | undefined): Place {
  if (!address.startsWith('s3:')) return new FolderPlace(resolve(address))
  const { bucket, path } = parseS3(address)
  return new S3Place(bucket, path, s3)
}

/** `to` may also name the file itself: it ends with .tar.gz or .age, or its folder exists and it does not. */
export function openDestination(
  to: string,
  s3: S3Settings | undefined,
  generated: string,
): { place: Place; name: string } {
  const isFile = /\.(tar\.gz|age)$/.test(to) && !isFolder(to)
  if (!isFile) return { place: openPlace(to, s3), name: generated }
  return locateBackup(to, s3)
}

const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** A single backup, by its full address. */
export function locateBackup(
  address: string,
  s3: S3Settings | undefined,
): { place: Place; name: string } {
  if (!address.startsWith('s3:')) {
    const path = resolve(address)
    return { place: new FolderPlace(dirname(path)), name: basename(path) }
  }
  const { bucket, path } = parseS3(address)
  const cut = path.lastIndexOf('/')
  return {
    place: new S3Place(bucket, path.slice(0, Math.max(cut, 0)), s3),
    name: path.slice(cut + 1),
  }
}

const PARTIAL = /^\.berth-[0-9a-f]{12}\.partial$/

class FolderPlace implements Place {
  readonly title: string

  constructor(folder: string) {
    this.title = folder
  }

  async freeBytes(): Promise<number> {
    await mkdir(this.title, { recursive: true, mode: 0o700 })
    const { bavail, bsize } = await statfs(this.title)
    return bavail * bsize
  }

  async write(name: string, content: Readable): Promise<number> {
    await mkdir(this.title, { recursive: true, mode: 0o700 })
    await this.#removeStale()
    const path = join(this.title, name)
    if (existsSync(path)) {
      content.destroy()
      throw new BackupError(`${path} exists already; a backup is never replaced.`)
    }
    const aside = join(this.title, `.berth-${randomBytes(6).toString('hex')}.partial`)
    try {
      await pipeline(content, createWriteStream(aside, { mode: 0o600, flags: 'wx', flush: true }))
      const { size } = await stat(aside)
      await rename(aside, path)
      await syncFolder(this.title)
      return size
    } catch (error) {
      await rm(aside, { force: true })
      throw error
    }
  }

  /** A process that died left it. */
  async #removeStale(): Promise<void> {
    for (const name of await readdir(this.title)) {
      if (!PARTIAL.test(name)) continue
      const path = join(this.title, name)
      const found = statSync(path, { throwIfNoEntry: false })
      if (found && Date.now() - found.mtimeMs > BACKUPS.staleMs) await rm(path, { force: true })
    }
  }

  async read(name: string): Promise<Readable> {
    const path = join(this.title, name)
    if (!existsSync(path)) throw new BackupError(`There is no backup at ${path}.`)
    return createReadStream(path)
  }

  async list(): Promise<StoredBackup[]> {
    const names = await readdir(this.title).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    return names.slice(0, BACKUPS.listed).flatMap((name) => {
      const takenAt = timeOfName(name)
      const found = takenAt && statSync(join(this.title, name), { throwIfNoEntry: false })
      return takenAt && found ? [{ name, bytes: found.size, takenAt }] : []
    })
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.title, name), { force: true })
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
