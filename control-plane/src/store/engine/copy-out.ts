// Reads bytes from PostgreSQL as bytes. The driver reads every value of a query as text, twice as long for bytes and
// slow to decode; `COPY … TO STDOUT (FORMAT binary)` sends them as they are.
import pg from 'pg'

/** The rows of a query as the bytes of their values; null is an empty value. The text must hold no value of a user. */
export type CopyOut = (query: string) => Promise<Buffer[][]>

/** A signature, flags and the length of an extension, which is empty. */
const HEADER_BYTES = 19

/** The driver hands the messages of a copy to its query and does nothing with them itself. */
class CopyQuery extends pg.Query {
  readonly rows: Buffer[][] = []
  #isBegun = false

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    let at = this.#isBegun ? 0 : HEADER_BYTES
    this.#isBegun = true
    while (at < chunk.length) {
      const count = chunk.readInt16BE(at)
      at += 2
      if (count < 0) return // the end
      const row: Buffer[] = []
      for (let n = 0; n < count; n++) {
        const length = Math.max(0, chunk.readInt32BE(at))
        at += 4
        row.push(Buffer.from(chunk.subarray(at, at + length))) // the driver uses its buffer again
        at += length
      }
      this.rows.push(row)
    }
  }
}

export const openCopyOut =
  (pool: pg.Pool, explain: (error: unknown) => unknown): CopyOut =>
  async (query) => {
    const client = await pool.connect()
    try {
      return await new Promise((resolve, reject) => {
        const copy = new CopyQuery(`copy (${query}) to stdout (format binary)`)
        copy.on('error', reject)
        copy.on('end', () => resolve(copy.rows))
        client.query(copy)
      })
    } catch (error) {
      throw explain(error)
    } finally {
      client.release()
    }
  }
