// A file that another process writes: it must end up complete and correct, or absent.
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Artifact } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { chooseTarget, PartialFile } from './file.ts'

const CONTENT = Buffer.from('0123456789'.repeat(200_000)) // more than one read returns
const artifact = {
  path: 'a',
  size_bytes: CONTENT.length,
  sha256: createHash('sha256').update(CONTENT).digest('hex'),
} as Artifact

describe('a file that is followed', () => {
  let dir: string
  let file: PartialFile
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'berth-follow-'))
    file = new PartialFile(chooseTarget(dir, artifact, { force: false }), artifact)
  })
  afterEach(async () => {
    await file.drop()
    rmSync(dir, { recursive: true })
  })
  const append = (bytes: Buffer): void => void writeSync(file.share(), bytes)

  test('is what was written while it was followed', async () => {
    const written = Promise.withResolvers<void>()
    append(CONTENT.subarray(0, 7))
    const followed = file.follow(written.promise)
    await new Promise(setImmediate)
    append(CONTENT.subarray(7))
    written.resolve()
    await followed
    file.verify()
    expect(readFileSync(await file.finish()).equals(CONTENT)).toBe(true)
    expect(readdirSync(dir)).toEqual(['a'])
  })

  test('goes on, by whoever, behind what was taken in before the writer failed', async () => {
    append(CONTENT.subarray(0, 1_500_000))
    await expect(file.follow(Promise.reject(new Error('cut')))).rejects.toThrow('cut')
    expect(file.bytes).toBe(1_500_000)
    append(Buffer.from('nobody took this in'))
    file.trim()
    file.write(CONTENT.subarray(1_500_000))
    file.verify()
    expect(readFileSync(await file.finish()).equals(CONTENT)).toBe(true)
  })

  test('is not waited for when everything came and the writer does not end', async () => {
    append(CONTENT)
    await file.follow(new Promise(() => {}))
    append(Buffer.from('written until it was ended'))
    file.trim()
    file.verify()
    expect(readFileSync(await file.finish()).equals(CONTENT)).toBe(true)
  })

  test('is refused when it is short, longer or another', async () => {
    append(CONTENT.subarray(1))
    await file.follow(Promise.resolve())
    expect(() => file.verify()).toThrow('bytes came')
    append(Buffer.from('x'))
    await file.follow(Promise.resolve())
    expect(() => file.verify()).toThrow('SHA-256 differs')
    file.restart()
    append(Buffer.concat([CONTENT, Buffer.from('x')]))
    await expect(file.follow(new Promise(() => {}))).rejects.toThrow('more came')
    await expect(file.finish()).rejects.toThrow('not verified')
    expect(readdirSync(dir)).toEqual([])
  })
})
