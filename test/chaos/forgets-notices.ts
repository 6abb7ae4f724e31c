// A control plane broken on purpose: from its second start on, it forgets every other notification. The harness must
// notice. A trigger in its database does it; the product contains none of this.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'

const file = join(process.env.BERTH_DATA_DIR ?? '', 'berth.db')
if (existsSync(file)) {
  const db = new Database(file)
  db.exec(`create trigger if not exists forget after insert on notices when new.id % 2 = 0
    begin delete from notices where id = new.id; end`)
  db.close()
}

await import('../../control-plane/src/main.ts')
