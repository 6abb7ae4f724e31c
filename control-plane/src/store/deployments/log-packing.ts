// Compresses the content of blocks: less to send, to log ahead and to store, which costs more time than compressing.
import { constants, createZstdCompress, type ZstdCompress, zstdDecompressSync } from 'node:zlib'
import { LogGone } from './log-index.ts'
import type { Block } from './log-store.ts'

const SMALL = 512 // hardly gets smaller
const OPTIONS = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_windowLog]: 17 },
}

/** Compresses one content after the other in another thread, with one state: a new one each costs garbage collections. */
class Packer {
  #stream: ZstdCompress | undefined
  #chunks: Buffer[] = []
  #last: Promise<unknown> = Promise.resolve()

  pack(content: Buffer): Promise<Buffer> {
    const packed = this.#last.then(() => this.#compress(content))
    this.#last = packed.catch(() => undefined)
    return packed
  }

  #compress(content: Buffer): Promise<Buffer> {
    const stream = this.#stream ?? this.#open()
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#stream = undefined
        this.#chunks = []
        reject(error)
      }
      stream.once('error', fail)
      stream.write(content)
      // ends the frame, so it is read without the ones before it
      stream.flush(constants.ZSTD_e_end, () => {
        stream.off('error', fail)
        const packed = Buffer.concat(this.#chunks)
        this.#chunks = []
        resolve(packed)
      })
    })
  }

  #open(): ZstdCompress {
    const stream = createZstdCompress(OPTIONS)
    stream.on('data', (chunk: Buffer) => void this.#chunks.push(chunk))
    this.#stream = stream
    return stream
  }
}

/** Both parts of a block at once. */
const packers = { entries: new Packer(), data: new Packer() }

async function pack(part: keyof typeof packers, content: Buffer): Promise<Buffer> {
  if (content.length < SMALL) return content
  const packed = await packers[part].pack(content)
  return packed.length < content.length ? packed : content
}

/** Content of its own length was not compressed. */
export function unpack(packed: Buffer, length: number): Buffer {
  if (packed.length === length) return packed
  try {
    const content = zstdDecompressSync(packed, { maxOutputLength: length, chunkSize: length + 64 })
    if (content.length === length) return content
  } catch {
    // not what was packed: the block was damaged
  }
  throw new LogGone('a block of a log is damaged')
}

/** A block as its row holds it. */
export interface PackedBlock extends Omit<Block, 'entries' | 'data'> {
  /** Length of its data. */
  bytes: number
  entries: Buffer
  data: Buffer
}

export async function packBlock({ entries, data, ...head }: Block): Promise<PackedBlock> {
  const [packedEntries, packedData] = await Promise.all([
    pack('entries', entries),
    pack('data', data),
  ])
  return { ...head, bytes: data.length, entries: packedEntries, data: packedData }
}

/** One packed block, with the values below. */
export const INSERT_BLOCK = `insert into log_blocks
  (attempt_id, seq, records, start, bytes, line, entries, data) values ($1, $2, $3, $4, $5, $6, $7, $8)`

export const blockValues = (attemptId: string, block: PackedBlock): unknown[] => {
  const { seq, records, start, bytes, line, entries, data } = block
  return [attemptId, seq, records, start, bytes, line, entries, data]
}
