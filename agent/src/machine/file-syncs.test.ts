import { fstatSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { FileSyncs } from './file-syncs.ts'

test('a file is closed when no sync is under way any more, and at once otherwise', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-syncs-'))
  const open = (name: string): number => openSync(join(folder, name), 'w')
  const isOpen = (fd: number): boolean => {
    try {
      return fstatSync(fd).isFile()
    } catch {
      return false
    }
  }
  const syncs = new FileSyncs()
  const first = open('a')
  const second = open('b')
  const under = [syncs.data(first), syncs.data(second)]
  syncs.close(first)
  syncs.close(second)
  expect([isOpen(first), isOpen(second)]).toEqual([true, true])
  await Promise.all(under)
  expect([isOpen(first), isOpen(second)]).toEqual([false, false])
  const third = open('c')
  syncs.close(third)
  expect(isOpen(third)).toBe(false)
  rmSync(folder, { recursive: true })
})
