// A control plane broken on purpose: each fifth attempt gets a fence that the following ones do not exceed. A trigger in
// its database does it; the product contains none of this.
import pg from 'pg'

const client = new pg.Client({ connectionString: process.env.DATABASE_URL })
await client.connect()
const { rows } = await client.query("select to_regclass('attempts') as found")
if (rows[0]?.found) {
  await client.query(`create or replace function raise_fence() returns trigger language plpgsql as $$ begin
    if new.task_id % 5 = 0 then new.fence := new.fence + 1000; end if;
    return new; end $$`)
  await client.query('drop trigger if exists raise_fence on attempts')
  await client.query(
    'create trigger raise_fence before insert on attempts for each row execute function raise_fence()',
  )
}
await client.end()

await import('../../../control-plane/src/main.ts')
