// Preallocated files: each is taken once, their number is bounded, and none that was not taken is left.
import { closeSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CLIENT } from '../../limits/client.ts'
import type { Part } from './parts.ts'
import { PartsAhead } from './preallocate.ts'

describe('files made ahead', () => {
  let dir: string
  let ahead: PartsAhead
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'berth-ahead-'))
    ahead = new PartsAhead()
  })
  afterEach(() => {
    ahead.close()
    rmSync(dir, { recursive: true })
  })

  /** Polls until there is a result. */
  async function eventually<T>(look: () => T | undefined): Promise<T> {
    for (const endsAt = Date.now() + 20_000; ; ) {
      const found = look()
      if (found !== undefined) return found
      if (Date.now() > endsAt) throw new Error('no file was made')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  const lying = (count: number) =>
    eventually(() => (readdirSync(dir).length >= count ? true : undefined))

  test('are as many as are wanted, each given out once; the rest goes at the end', async () => {
    expect(ahead.take(dir, 5)).toBeUndefined() // nothing was ready for the first
    await lying(5)
    const parts: Part[] = []
    for (const left of [4, 3, 2]) parts.push(await eventually(() => ahead.take(dir, left)))
    ahead.close()
    const paths = parts.map(({ path }) => path)
    expect(readdirSync(dir).map((name) => join(dir, name))).toEqual(paths.toSorted())
    for (const { fd } of parts) closeSync(fd)
  })

  test('are never more than the bound, and none for another folder', async () => {
    ahead.take(dir, CLIENT.filesAhead * 2)
    await lying(CLIENT.filesAhead)
    expect(readdirSync(dir)).toHaveLength(CLIENT.filesAhead)
    expect(ahead.take(tmpdir(), 0)).toBeUndefined()
    ahead.close()
    expect(readdirSync(dir)).toEqual([])
  })

  test('are not missed where they cannot be made', async () => {
    ahead.take(join(dir, 'nowhere'), 3)
    await new Promise(setImmediate)
    expect(ahead.take(dir, 3)).toBeUndefined()
    ahead.close()
    expect(readdirSync(dir)).toEqual([])
  })
})
