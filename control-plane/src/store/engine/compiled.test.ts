import type { Transaction } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ENGINES, openEngine } from '../../../../test/fixtures/platform/engines.ts'
import type { Schema } from '../schema.ts'
import { runCompiled, workInside } from './compiled.ts'
import type { OpenDatabase } from './database.ts'
import type { Db } from './db.ts'

describe.each(ENGINES)('compiled statements on %s', (engine) => {
  let opened: OpenDatabase
  beforeAll(async () => {
    opened = await openEngine(engine)
    for (const name of ['Acme', 'Beta']) {
      const row = { name, slug: name.toLowerCase(), createdAt: 1 }
      await opened.db.insertInto('organizations').values(row).execute()
    }
  })
  afterAll(() => opened.db.destroy())

  const bySlug = (slug: string, at: number) =>
    runCompiled(opened.db, 'organization by slug', [slug, at], () =>
      opened.db
        .selectFrom('organizations')
        .select(['name', 'createdAt'])
        .where('slug', '=', slug)
        .where('createdAt', '=', at),
    )

  it('give each call its own values, inside a transaction too', async () => {
    expect(await bySlug('acme', 1)).toEqual([{ name: 'Acme', createdAt: 1 }])
    expect(await bySlug('beta', 1)).toEqual([{ name: 'Beta', createdAt: 1 }])
    expect(await bySlug('beta', 2)).toEqual([])
    const inside = await opened.db.transaction().execute((tx) =>
      runCompiled(tx, 'organization by slug', ['acme', 1], () => {
        throw new Error('it is compiled already')
      }),
    )
    expect(inside).toEqual([{ name: 'Acme', createdAt: 1 }])
  })

  it('show nothing of a transaction that is still open', async () => {
    const begun = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    const writing = opened.db.transaction().execute(async (tx) => {
      await tx.updateTable('organizations').set({ createdAt: 2 }).execute()
      begun.resolve()
      await end.promise
      throw new Error('rolled back')
    })
    await begun.promise
    const read = bySlug('acme', 2)
    end.resolve()
    await expect(writing).rejects.toThrow('rolled back')
    expect(await read).toEqual([])
    expect(await bySlug('acme', 1)).toEqual([{ name: 'Acme', createdAt: 1 }])
  })

  it('of a transaction see what it wrote, alone, and no longer than it lasts', async () => {
    const late: Transaction<Schema>[] = []
    const read = (db: Db, at: number) =>
      runCompiled(db, 'organization by slug', ['acme', at], () => {
        throw new Error('it is compiled already')
      })
    const outside: Promise<unknown[]>[] = []
    const inside = opened.db.transaction().execute((tx) =>
      workInside(tx, async () => {
        late.push(tx)
        await tx.updateTable('organizations').set({ createdAt: 3 }).execute()
        outside.push(read(opened.db, 3))
        expect(await read(tx, 3)).toHaveLength(1)
        throw new Error('rolled back')
      }),
    )
    await expect(inside).rejects.toThrow('rolled back')
    expect(await Promise.all(outside)).toEqual([[]])
    await expect(read(late[0] as Transaction<Schema>, 1)).rejects.toThrow('rolled back')
  })

  it('refuse values that are not those of the statement', async () => {
    const build = () =>
      opened.db
        .selectFrom('organizations')
        .selectAll()
        .where('slug', '=', 'acme')
        .where('createdAt', '=', 1)
    await expect(runCompiled(opened.db, 'swapped', [1, 'acme'], build)).rejects.toThrow('swapped')
    await expect(runCompiled(opened.db, 'short', ['acme'], build)).rejects.toThrow('short')
  })
})
