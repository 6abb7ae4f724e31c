// Backups in S3-compatible storage.
import type { Readable } from 'node:stream'
import { Bucket } from '@berth/shared/storage'
import type { S3Settings } from '../config.ts'
import { BackupError } from './faults.ts'
import { timeOfName } from './names.ts'
import type { Place, StoredBackup } from './place.ts'

const ADVICE = 'Check BERTH_BACKUP_S3_ENDPOINT, the bucket and the credentials.'

export class S3Place implements Place {
  readonly title: string
  readonly #bucket: Bucket

  constructor(bucket: string, prefix: string, settings: S3Settings | undefined) {
    if (!settings) {
      throw new BackupError(
        'S3 needs BERTH_BACKUP_S3_ACCESS_KEY_ID and BERTH_BACKUP_S3_SECRET_ACCESS_KEY, and for other storage than Amazon BERTH_BACKUP_S3_ENDPOINT.',
      )
    }
    this.#bucket = new Bucket({ ...settings, bucket, prefix })
    this.title = this.#bucket.title
  }

  async freeBytes(): Promise<undefined> {
    return undefined
  }

  async write(name: string, content: Readable): Promise<number> {
    try {
      return await this.#bucket.write(name, content)
    } catch (error) {
      if (content.errored === error) throw error
      throw withAdvice(error)
    }
  }

  read(name: string): Promise<Readable> {
    return this.#bucket.read(name).catch(rethrow)
  }

  async list(): Promise<StoredBackup[]> {
    const found = await this.#bucket.list().catch(rethrow)
    return found.flatMap(({ name, bytes }) => {
      const takenAt = timeOfName(name)
      return takenAt === undefined ? [] : [{ name, bytes, takenAt }]
    })
  }

  remove(name: string): Promise<void> {
    return this.#bucket.remove(name).catch(rethrow)
  }
}

/** What the bucket says, and which settings decide it. A missing backup needs no advice. */
function withAdvice(error: unknown): BackupError {
  const { message } = error as Error
  const advice = message.startsWith('There is no') ? '' : ` ${ADVICE}`
  return new BackupError(`${message}${advice}`, { cause: error })
}

function rethrow(error: unknown): never {
  throw withAdvice(error)
}
