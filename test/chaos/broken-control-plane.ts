// A control plane broken on purpose: one task does not survive the end of its process, the newest that was finished, as if it
// had been acknowledged before it was on the disk. The harness must notice. Nothing of this is in the product.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'

const file = join(process.env.BERTH_DATA_DIR ?? '', 'berth.db')
if (existsSync(file)) {
  const database = new Database(file)
  database.pragma('foreign_keys = OFF') // what refers to it is lost as well, as far as readers see
  const lost = 'select id from tasks order by finished_at is null, id desc limit 1'
  database.exec(`delete from tasks where id = (${lost})`)
  database.close()
}

await import('../../control-plane/src/main.ts')
