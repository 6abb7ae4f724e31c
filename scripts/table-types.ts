// Writes control-plane/src/store/schema.ts, the types of the tables, from the result of the migrations (`npm run gen`).
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listStatements } from '../control-plane/src/store/engine/migrations.ts'
import { describeTables } from '../control-plane/src/store/engine/table-types.ts'

const target = join(import.meta.dirname, '../control-plane/src/store/schema.ts')
writeFileSync(target, describeTables(listStatements('sqlite')))
