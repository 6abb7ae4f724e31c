// Partial files: none is left when the client notices its own end, and the next client removes what a killed one left.
import { closeSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { CLIENT } from '../../limits/client.ts'
import { forgetPart, makePart, removeParts, sweepParts } from './parts.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-parts-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

test('all of this process go at once, without those that have their own name', () => {
  const [one, other] = [makePart(dir), makePart(dir)]
  for (const { fd } of [one, other]) closeSync(fd)
  forgetPart(other.path)
  removeParts()
  expect(readdirSync(dir).map((name) => join(dir, name))).toEqual([other.path])
})

test('those of processes that are gone are swept, all others stay', () => {
  const { path, fd } = makePart(dir)
  closeSync(fd)
  forgetPart(path)
  const own = readdirSync(dir)[0] ?? ''
  const [, machine = ''] = /^\.berth-([0-9a-f]{8})-/.exec(own) ?? []
  const name = (pid: number, of = machine, n = 1) =>
    `.berth-${of}-${pid}-${'0'.repeat(16)}-${n}.part`
  const gone = [name(999_999_999), name(999_999_999, machine, 2)]
  const strange = [name(999_999_999, '00000000'), `.berth-${'0'.repeat(16)}-1.part`, 'a.part']
  const now = Date.now()
  const at = new Date(now - CLIENT.partStaleMs - 60_000)
  for (const one of [...gone, ...strange]) writeFileSync(join(dir, one), one)
  for (const one of [own, ...gone, ...strange]) utimesSync(join(dir, one), at, at)
  const young = name(999_999_998)
  writeFileSync(join(dir, young), '')
  sweepParts(dir, now)
  expect(readdirSync(dir).toSorted()).toEqual([own, young, ...strange].toSorted())
  sweepParts(join(dir, 'nowhere'), now)
})
