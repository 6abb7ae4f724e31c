// A body of large pieces. It writes them itself in place of being read: only the callback of a writing says that the
// piece has left, so that its memory can be given back at once. One piece is on its way at a time, the next is asked for
// when it has left. Whatever breaks destroys the stream, and with it the answer; so does a reader that takes nothing.
import { Readable } from 'node:stream'
import { TRANSFERS } from '@berth/shared'
import { freeBytes } from '@berth/shared/memory'

export class ByteStream extends Readable {
  readonly #bytes: AsyncIterable<Buffer>

  /** Nobody else may have a reference to the pieces. */
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

/** In as much time as the transfer behind it gives its reader. */
const written = (target: NodeJS.WritableStream, piece: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('nobody takes it')), TRANSFERS.idleMs)
    target.write(piece, (error) => {
      clearTimeout(late)
      if (error) reject(error)
      else resolve()
    })
  })
