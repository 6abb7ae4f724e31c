// A control plane broken on purpose: its newest task does not survive the end of its process, as if it had been acknowledged
// before it was on the disk. The harness must notice. Nothing of this is in the product.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'

const file = join(process.env.BERTH_DATA_DIR ?? '', 'berth.db')
if (existsSync(file)) {
  const database = new Database(file)
  database.pragma('foreign_keys = OFF') // what refers to it is lost as well, as far as readers see
  database.exec('delete from tasks where id = (select max(id) from tasks)')
  database.close()
}

await import('../../control-plane/src/main.ts')
