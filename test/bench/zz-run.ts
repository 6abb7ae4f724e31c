import { readFileSync } from 'node:fs'
import { sql } from 'kysely'
import { boundedPlans } from '../../control-plane/src/store/migrations/0061-0070/0064-bounded-plans.ts'
import { openInstallation, plantInstallation } from './api-seed.ts'
import { compareInstallations } from './zz-api.ts'

const large = {
  ...JSON.parse(readFileSync('/tmp/w/plans/large.json', 'utf8')),
  databaseUrl: undefined,
}
const { db } = openInstallation(large)
const { rows } = await sql<{
  name: string
}>`select name from sqlite_master where type='index'`.execute(db)
const has = new Set(rows.map((r) => r.name))
if (!has.has('backups_project'))
  for (const s of boundedPlans.statements({ engine: 'sqlite', id: '' })) {
    const name = /index (\w+)/.exec(s)![1]!
    if (s.startsWith('drop') || !has.has(name) || name === 'backups_environment')
      await sql.raw(s).execute(db)
  }
await sql`update projects set updated_at = ${Date.now()} - id`.execute(db)
await db.destroy()
const small = await plantInstallation({
  engine: 'sqlite',
  projects: 1000,
  environments: 20000,
  tasks: 1000,
})
const t0 = Date.now()
await compareInstallations(large, small)
console.log('seconds', (Date.now() - t0) / 1000)
small.close()
process.exit(0)
