// A response body of large chunks. It writes to the response itself, because only the write callback says that a
// chunk's memory can be freed. One chunk is in flight at a time. Any failure, or a reader that stalls, destroys the
// stream and with it the response.
import { Readable } from 'node:stream'
import { TRANSFERS } from '@berth/shared'
import { freeBytes } from '@berth/shared/memory'

export class ByteStream extends Readable {
  readonly #bytes: AsyncIterable<Buffer>

  /** The caller must keep no reference to the chunks. */
  constructor(bytes: AsyncIterable<Buffer>) {
    super({ read: () => undefined })
    this.#bytes = bytes
  }

  override pipe<T extends NodeJS.WritableStream>(target: T): T {
    this.#copy(target).then(
      () => {
        target.end()
        this.push(null)
        this.resume()
      },
      (error: Error) => this.destroy(error),
    )
    return target
  }

  async #copy(target: NodeJS.WritableStream): Promise<void> {
    const gone = Promise.withResolvers<never>()
    gone.promise.catch(() => undefined)
    const leave = (): void => gone.reject(new Error('the reader left'))
    target.once('close', leave)
    try {
      for await (const piece of this.#bytes) {
        if (this.destroyed) throw new Error('it was destroyed')
        await Promise.race([written(target, piece), gone.promise])
        freeBytes(piece)
      }
    } finally {
      target.off('close', leave)
    }
  }
}

/** The timeout equals the one that the transfer behind it gives its reader. */
const written = (target: NodeJS.WritableStream, piece: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(
      () => reject(new Error('the receiver stopped reading')),
      TRANSFERS.idleMs,
    )
    target.write(piece, (error) => {
      clearTimeout(late)
      if (error) reject(error)
      else resolve()
    })
  })
