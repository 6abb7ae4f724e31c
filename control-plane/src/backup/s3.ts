// Backups in S3-compatible storage. An upload has parts and appears when it is completed; a failed one is withdrawn.
import { Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import { S3mini } from 's3mini'
import type { S3Settings } from '../config.ts'
import { BACKUPS } from '../limits/installation.ts'
import { BackupError } from './faults.ts'
import { timeOfName } from './names.ts'
import type { Place, StoredBackup } from './place.ts'

export class S3Place implements Place {
  readonly title: string
  readonly #client: S3mini
  readonly #prefix: string

  constructor(bucket: string, path: string, settings: S3Settings | undefined) {
    if (!settings) {
      throw new BackupError(
        'S3 needs BERTH_BACKUP_S3_ACCESS_KEY_ID and BERTH_BACKUP_S3_SECRET_ACCESS_KEY, and for other storage than Amazon BERTH_BACKUP_S3_ENDPOINT.',
      )
    }
    this.title = `s3://${bucket}${path === '' ? '' : `/${path}`}`
    this.#prefix = path === '' ? '' : `${path}/`
    this.#client = new S3mini({
      accessKeyId: settings.accessKeyId,
      secretAccessKey: settings.secretAccessKey,
      endpoint: `${settings.endpoint.replace(/\/+$/, '')}/${bucket}`,
      region: settings.region,
      requestSizeInBytes: BACKUPS.uploadBytes,
      minPartSize: BACKUPS.uploadBytes,
      requestAbortTimeout: BACKUPS.requestMs,
    })
  }

  async freeBytes(): Promise<undefined> {
    return undefined
  }

  async write(name: string, content: Readable): Promise<number> {
    let bytes = 0
    async function* counted(): AsyncGenerator<Buffer> {
      for await (const chunk of content as AsyncIterable<Buffer>) {
        bytes += chunk.length
        yield chunk
      }
    }
    const key = this.#prefix + name
    try {
      // a bucket that does not exist or refuses is found before anything is sent
      if (await this.#client.objectExists(key)) throw new BackupError('it exists already')
      const body = Readable.toWeb(Readable.from(counted(), { objectMode: false }))
      await this.#client.putAnyObject(
        key,
        body as unknown as ReadableStream,
        'application/octet-stream',
      )
    } catch (error) {
      if (content.errored) throw content.errored
      content.destroy()
      throw this.#explain(`The backup could not be stored at ${this.title}/${name}`, error)
    }
    return bytes
  }

  async read(name: string): Promise<Readable> {
    const response = await this.#ask(`${this.title}/${name} cannot be read`, () =>
      this.#client.getObjectResponse(this.#prefix + name),
    )
    if (!response?.body) throw new BackupError(`There is no backup at ${this.title}/${name}.`)
    return Readable.fromWeb(response.body as unknown as WebStream<Uint8Array>)
  }

  async list(): Promise<StoredBackup[]> {
    const found = await this.#ask(`${this.title} cannot be listed`, () =>
      this.#client.listObjects('/', this.#prefix, BACKUPS.listed),
    )
    if (!found) throw new BackupError(`There is no bucket for ${this.title}.`)
    return found.flatMap(({ Key, Size }) => {
      const name = Key.slice(this.#prefix.length)
      const takenAt = Key.startsWith(this.#prefix) ? timeOfName(name) : undefined
      return takenAt === undefined ? [] : [{ name, bytes: Number(Size), takenAt }]
    })
  }

  async remove(name: string): Promise<void> {
    await this.#ask(`${this.title}/${name} cannot be removed`, () =>
      this.#client.deleteObject(this.#prefix + name),
    )
  }

  async #ask<T>(what: string, call: () => Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      throw this.#explain(what, error)
    }
  }

  /** The library's errors name the status and the server's code, never a credential. */
  #explain(what: string, error: unknown): BackupError {
    const { message, cause } = error as Error
    const reason =
      cause instanceof Error && cause.message ? `${message} (${cause.message})` : message
    return new BackupError(
      `${what}: ${reason}. Check BERTH_BACKUP_S3_ENDPOINT, the bucket and the credentials.`,
      { cause: error },
    )
  }
}
