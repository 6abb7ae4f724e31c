// A bucket of S3-compatible storage. An upload has parts and appears when it is completed; a failed one is withdrawn.
// Messages name the status and the storage's code, never a credential.
import { Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import { S3mini } from 's3mini'
import { backupLocation } from '../backup-location.ts'
import { BUCKETS } from '../limits/limits.ts'

export interface BucketSettings {
  endpoint: string
  region: string
  bucket: string
  /** Folder in the bucket, without slashes at its ends; may be empty. */
  prefix: string
  accessKeyId: string
  secretAccessKey: string
}

export class BucketError extends Error {
  override readonly name = 'BucketError'
}

interface StoredObject {
  name: string
  bytes: number
}

export class Bucket {
  /** For messages: s3://bucket/folder. */
  readonly title: string
  readonly #client: S3mini
  readonly #prefix: string

  constructor({ bucket, prefix, endpoint, ...settings }: BucketSettings) {
    this.title = backupLocation({ bucket, prefix })
    this.#prefix = prefix === '' ? '' : `${prefix}/`
    this.#client = new S3mini({
      accessKeyId: settings.accessKeyId,
      secretAccessKey: settings.secretAccessKey,
      endpoint: `${endpoint.replace(/\/+$/, '')}/${bucket}`,
      region: settings.region,
      requestSizeInBytes: BUCKETS.uploadBytes,
      minPartSize: BUCKETS.uploadBytes,
      requestAbortTimeout: BUCKETS.requestMs,
    })
  }

  /** Never replaces an object. Returns the size. */
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
      if (await this.#client.objectExists(key)) throw new BucketError('it exists already')
      const body = Readable.toWeb(Readable.from(counted(), { objectMode: false }))
      await this.#client.putAnyObject(
        key,
        body as unknown as ReadableStream,
        'application/octet-stream',
      )
    } catch (error) {
      if (content.errored) throw content.errored
      content.destroy()
      throw explain(`The backup could not be stored at ${this.title}/${name}`, error)
    }
    return bytes
  }

  async read(name: string): Promise<Readable> {
    const response = await this.#ask(`${this.title}/${name} cannot be read`, () =>
      this.#client.getObjectResponse(this.#prefix + name),
    )
    if (!response?.body) throw new BucketError(`There is no backup at ${this.title}/${name}.`)
    return Readable.fromWeb(response.body as unknown as WebStream<Uint8Array>)
  }

  /** Names below `folder` (which ends with a slash, or is empty), relative to the bucket's folder. */
  async list(folder = ''): Promise<StoredObject[]> {
    const found = await this.#ask(`${this.title} cannot be listed`, () =>
      this.#client.listObjects('/', this.#prefix + folder, BUCKETS.listed),
    )
    if (!found) throw new BucketError(`There is no bucket for ${this.title}.`)
    return found.flatMap(({ Key, Size }) =>
      Key.startsWith(this.#prefix + folder)
        ? [{ name: Key.slice(this.#prefix.length), bytes: Number(Size) }]
        : [],
    )
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
      throw explain(what, error)
    }
  }
}

function explain(what: string, error: unknown): BucketError {
  const { message, cause } = error as Error
  const reason = cause instanceof Error && cause.message ? `${message} (${cause.message})` : message
  return new BucketError(`${what}: ${reason}.`, { cause: error })
}
