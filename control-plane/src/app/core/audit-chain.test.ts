// The audit chain stays intact under concurrent writers; the check finds each edit, deletion, insertion and swap.
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES, openEngine } from '../../../../test/fixtures/platform/engines.ts'
import type { Context } from '../../context.ts'
import { loadKek, SecretStore } from '../../keys/secret-store.ts'
import { Notifier } from '../../notifications/notifier.ts'
import type { AuditRow } from '../../store/core/audit.ts'
import type { OpenDatabase } from '../../store/engine/database.ts'
import { audit } from './audit.ts'
import { encodeFields } from './audit-chain.ts'
import { openAuditChain, trimAudit, verifyAudit } from './audit-check.ts'
import { change } from './transaction.ts'

const DAY = 86_400_000

function makeSecretStore(): SecretStore {
  const dir = mkdtempSync(join(tmpdir(), 'berth-kek-'))
  const file = join(dir, 'kek')
  writeFileSync(file, randomBytes(32).toString('base64'))
  chmodSync(file, 0o400)
  const secretStore = new SecretStore(loadKek(file))
  rmSync(dir, { recursive: true })
  return secretStore
}

test('different lists of fields never give the same bytes', () => {
  const values = [null, '', 'a', 'b', 'ab', 'a\0', '\0', 0, 1, 12, '1', '12', 'null']
  const seen = new Map<string, string>()
  const visit = (list: (string | number | null)[]): void => {
    const bytes = encodeFields(list).toString('hex')
    const known = seen.get(bytes)
    expect(known ?? JSON.stringify(list)).toBe(JSON.stringify(list))
    seen.set(bytes, JSON.stringify(list))
    if (list.length < 3) for (const value of values) visit([...list, value])
  }
  visit([])
  expect(seen.size).toBe(1 + 13 + 13 ** 2 + 13 ** 3)
})

describe.each(ENGINES)('the chain on %s', (engine) => {
  let opened: OpenDatabase
  let ctx: Context
  let now = Date.parse('2026-01-01T00:00:00Z')
  beforeAll(async () => {
    opened = await openEngine(engine)
    const parts = { db: opened.db, engine: opened.engine, secretStore: makeSecretStore() }
    ctx = {
      ...parts,
      clock: { now: () => now },
      notifier: new Notifier(() => {}),
    } as unknown as Context
    await openAuditChain(ctx)
  })
  afterAll(() => opened.db.destroy())

  const write = (n: number): Promise<void> =>
    change(ctx, async (c) => {
      const system = { type: 'system', name: 'test' } as const
      await audit(c, system, null, 'thing.change', ['thing', n, `thing ${n}`], { n })
      if (n % 5 === 0) await audit(c, system, null, 'thing.touch', ['thing', n])
    })
  const rows = (): Promise<AuditRow[]> =>
    opened.db.selectFrom('audit').selectAll().orderBy('seq').execute()

  test('holds when fifty write at once, and a rolled-back change leaves no hole', async () => {
    const tries = Array.from({ length: 50 }, (_, n) =>
      n % 10 === 9
        ? change(ctx, async (c) => {
            await audit(c, { type: 'system', name: 'x' }, null, 'thing.fail', ['thing', n])
            throw new Error('planned')
          }).catch(() => undefined)
        : write(n),
    )
    await Promise.all(tries)
    const verdict = await verifyAudit(ctx)
    expect(verdict.problems).toEqual([])
    expect(verdict.rows).toBe(45 + 10) // each fifth writes two
    expect((await rows()).map((r) => r.seq)).toEqual(numbers(verdict.rows))
  })
  const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1)

  const EDITS: [keyof AuditRow, (row: AuditRow) => string | number | null][] = [
    ['at', (r) => r.at + 1],
    ['organizationId', (r) => (r.organizationId ?? 0) + 1],
    ['actorType', () => 'user'],
    ['actorId', () => '7'],
    ['actorName', (r) => `${r.actorName}x`],
    ['tokenId', () => 3],
    ['address', () => '127.0.0.1'],
    ['requestId', () => 'req_x'],
    ['verb', () => 'thing.undo'],
    ['subjectType', () => 'thong'],
    ['subjectId', (r) => `${r.subjectId}0`],
    ['subjectName', (r) => `${r.subjectName ?? ''}!`],
    ['details', () => '{"n":-1}'],
    ['previousHash', (r) => flip(r.previousHash)],
    ['hash', (r) => flip(r.hash)],
    ['seq', () => 1_000],
  ]
  const flip = (hash: string | null): string =>
    `${hash?.startsWith('0') ? '1' : '0'}${hash?.slice(1)}`

  test('every edit of every column of any row is noticed', async () => {
    let noticed = 0
    for (const row of (await rows()).filter((_, n) => n % 4 === 0)) {
      for (const [column, edit] of EDITS) {
        const set = { [column]: edit(row) }
        await opened.db.updateTable('audit').set(set).where('id', '=', row.id).execute()
        const { problems } = await verifyAudit(ctx)
        if (problems.length > 0) noticed += 1
        else expect.fail(`${column} of row ${row.id} was changed and nobody noticed`)
        const back = { [column]: row[column] }
        await opened.db.updateTable('audit').set(back).where('id', '=', row.id).execute()
      }
    }
    expect(noticed).toBe(14 * EDITS.length)
    expect((await verifyAudit(ctx)).problems).toEqual([])
  })

  test('every deletion is noticed: first, middle, last', async () => {
    for (const row of await rows()) {
      await opened.db.deleteFrom('audit').where('id', '=', row.id).execute()
      expect((await verifyAudit(ctx)).problems, String(row.seq)).not.toEqual([])
      await opened.db.insertInto('audit').values(row).execute()
    }
    expect((await verifyAudit(ctx)).problems).toEqual([])
  })

  test('swapped contents and swapped places are noticed', async () => {
    const all = await rows()
    const put = async (id: number, values: Partial<AuditRow>): Promise<void> => {
      await opened.db.updateTable('audit').set(values).where('id', '=', id).execute()
    }
    for (let n = 0; n + 7 < all.length; n += 3) {
      const [a, b] = [all[n] as AuditRow, all[n + 7] as AuditRow]
      const reported = ({ at, verb, subjectId, details }: AuditRow) => ({
        at,
        verb,
        subjectId,
        details,
      })
      await put(a.id, reported(b))
      await put(b.id, reported(a))
      expect((await verifyAudit(ctx)).problems).not.toEqual([])
      await put(a.id, reported(a))
      await put(b.id, reported(b))
      const { seq, hash, previousHash } = a
      await put(a.id, { seq: -1 })
      await put(b.id, { seq, hash, previousHash })
      await put(a.id, { seq: b.seq, hash: b.hash, previousHash: b.previousHash })
      expect((await verifyAudit(ctx)).problems).not.toEqual([])
      await put(b.id, { seq: -1 })
      await put(a.id, { seq, hash, previousHash })
      await put(b.id, { seq: b.seq, hash: b.hash, previousHash: b.previousHash })
    }
    expect((await verifyAudit(ctx)).problems).toEqual([])
  })

  test('a row put in beside the chain, and a head that was set back, are noticed', async () => {
    const [row] = await rows()
    const { id: _id, ...rest } = row as AuditRow
    const beside = { ...rest, seq: null, hash: null, previousHash: null }
    const made = await opened.db
      .insertInto('audit')
      .values(beside)
      .returning('id')
      .executeTakeFirst()
    expect((await verifyAudit(ctx)).problems).toEqual(['1 rows were put in beside the chain.'])
    await opened.db
      .deleteFrom('audit')
      .where('id', '=', made?.id ?? 0)
      .execute()
    const last = (await rows()).at(-1) as AuditRow
    const head = await opened.db.selectFrom('auditHead').selectAll().executeTakeFirstOrThrow()
    await opened.db.deleteFrom('audit').where('id', '=', last.id).execute()
    const back = { seq: head.seq - 1, hash: last.previousHash ?? '' }
    await opened.db.updateTable('auditHead').set(back).execute()
    expect((await verifyAudit(ctx)).problems).toEqual(['The head of the chain was changed.'])
    await opened.db.insertInto('audit').values(last).execute()
    await opened.db.updateTable('auditHead').set(head).execute()
    expect((await verifyAudit(ctx)).problems).toEqual([])
  })

  test('another key proves nothing', async () => {
    const { problems } = await verifyAudit({ ...ctx, secretStore: makeSecretStore() })
    expect(problems[0]).toBe('The head of the chain was changed.')
  })

  test('after 400 days the oldest rows go, and the rest is still a chain', async () => {
    const before = (await rows()).length
    now += 401 * DAY
    await write(101)
    await write(102)
    await trimAudit(ctx)
    expect((await rows()).map((r) => r.seq)).toEqual([before + 1, before + 2])
    expect((await verifyAudit(ctx)).problems).toEqual([])
    await opened.db
      .deleteFrom('audit')
      .where('seq', '=', before + 1)
      .execute()
    expect((await verifyAudit(ctx)).problems).not.toEqual([])
    now += 401 * DAY
    await trimAudit(ctx)
    expect(await rows()).toEqual([])
    expect((await verifyAudit(ctx)).problems).toEqual([])
    await write(103)
    expect(await verifyAudit(ctx)).toMatchObject({ rows: 1, seq: before + 3, problems: [] })
  })
})
