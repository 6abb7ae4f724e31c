// A process may die between any two renames; the recovery must always end with the former data in place.
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Swap } from '../../journal/data-work.ts'
import { inodeOf, isSwapped, putBack, swapIn } from './swap.ts'

let root: string
let swap: Swap
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'berth-swap-'))
  const live = join(root, '_data')
  const other = join(root, '.berth-restore-7')
  for (const [folder, text] of [
    [live, 'former'],
    [other, 'restored'],
  ] as const) {
    mkdirSync(folder)
    writeFileSync(join(folder, 'file'), text)
  }
  swap = { live, other, restored: inodeOf(other) }
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const inLive = (): string => readFileSync(join(swap.live, 'file'), 'utf8')
const aside = (): string => `${swap.other}.former`

/** The renames of a swap, and of the way back. */
const FORTH: (() => void)[] = [
  () => renameSync(swap.live, aside()),
  () => renameSync(swap.other, swap.live),
  () => renameSync(aside(), swap.other),
]

describe('two folders change places', () => {
  it('once', () => {
    expect(isSwapped(swap)).toBe(false)
    swapIn(swap)
    expect([inLive(), isSwapped(swap)]).toEqual(['restored', true])
    swapIn(swap)
    expect(inLive()).toBe('restored')
    putBack(swap)
    expect([inLive(), isSwapped(swap)]).toEqual(['former', false])
    putBack(swap)
    expect(inLive()).toBe('former')
  })

  it.each([0, 1, 2, 3])('after %i of its renames, the way back finds the former data', (done) => {
    for (const step of FORTH.slice(0, done)) step()
    putBack(swap)
    expect([inLive(), isSwapped(swap)]).toEqual(['former', false])
    expect(readFileSync(join(swap.other, 'file'), 'utf8')).toBe('restored')
  })

  it.each([1, 2, 3])('after %i renames of the way back, a second one ends it', (done) => {
    swapIn(swap)
    for (const step of FORTH.slice(0, done)) step()
    putBack(swap)
    expect([inLive(), isSwapped(swap)]).toEqual(['former', false])
  })
})
