import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SERVICE_LOGS } from '@berth/shared'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Masker } from '../machine/masking/mask.ts'
import { findResume } from './resume.ts'
import { readLastLines, type ServiceLine, ServiceLog } from './writer.ts'

let dir: string
let now: Date

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-service-log-'))
  now = new Date('2026-11-15T10:00:00.000Z')
})
afterEach(() => rmSync(dir, { recursive: true }))

const open = (task = 812, secrets: string[] = []) =>
  new ServiceLog(dir, task, new Masker(secrets.map((s) => Buffer.from(s))), {
    now: () => now,
  })
const read = (name = '2026-11-15.ndjson'): ServiceLine[] =>
  readFileSync(join(dir, name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ServiceLine)

describe('ServiceLog', () => {
  it('writes one entry a line, across chunks, sources apart', () => {
    const log = open()
    log.write('out', Buffer.from('one\ntw'))
    log.write('err', Buffer.from('bad\r\n'))
    log.write('out', Buffer.from('o\nrest'))
    log.close()
    const t = '2026-11-15T10:00:00.000Z'
    expect(read()).toEqual([
      { t, s: 'out', task: 812, text: 'one' },
      { t, s: 'err', task: 812, text: 'bad' },
      { t, s: 'out', task: 812, text: 'two' },
      { t, s: 'out', task: 812, text: 'rest' },
    ])
  })

  it('masks values, also cut anywhere between two chunks', () => {
    const secret = 'hunter2-very-secret'
    const log = open(812, [secret])
    for (let cut = 1; cut < secret.length; cut += 1) {
      log.write('out', Buffer.from(secret.slice(0, cut)))
      log.write('out', Buffer.from(`${secret.slice(cut)} ok\n`))
    }
    log.close()
    expect(new Set(read().map(({ text }) => text))).toEqual(new Set(['*** ok']))
  })

  it('keeps characters whole that were cut by a chunk', () => {
    const log = open()
    const bytes = Buffer.from('日本\n')
    log.write('out', bytes.subarray(0, 2))
    log.write('out', bytes.subarray(2))
    log.close()
    expect(read()[0]?.text).toBe('日本')
  })

  it('goes on when a day whose file could not be opened can be written again', () => {
    const log = open()
    log.write('out', Buffer.from('a\n'))
    now = new Date('2026-11-16T00:00:00.000Z')
    const blocked = join(dir, '2026-11-16.ndjson')
    mkdirSync(blocked)
    expect(() => log.write('out', Buffer.from('lost\n'))).toThrow()
    expect(() => log.write('out', Buffer.from('lost\n'))).toThrow(/EISDIR/)
    rmSync(blocked, { recursive: true })
    log.write('out', Buffer.from('b\n'))
    log.close()
    expect(read('2026-11-16.ndjson').map(({ text }) => text)).toEqual(['b'])
  })

  it('begins a new file with a new day, and goes on with an old one', () => {
    const log = open()
    log.write('out', Buffer.from('a\n'))
    now = new Date('2026-11-16T00:00:00.000Z')
    log.write('out', Buffer.from('b\n'))
    log.close()
    const next = open(813)
    next.write('out', Buffer.from('c\n'))
    next.close()
    expect(readdirSync(dir).sort()).toEqual(['2026-11-15.ndjson', '2026-11-16.ndjson'])
    expect(read('2026-11-16.ndjson').map(({ text, task }) => [text, task])).toEqual([
      ['b', 812],
      ['c', 813],
    ])
  })

  it('sets full parts aside, keeps the end, and ends a line that a crash cut', () => {
    const log = open()
    const chunk = Buffer.alloc(1_024 ** 2, 'x')
    for (let i = 0; i < 40; i += 1) log.write('out', chunk)
    log.write('out', Buffer.from('\nlast\n'))
    log.abandon()
    expect(readdirSync(dir).sort()).toEqual([
      '2026-11-15.1.ndjson',
      '2026-11-15.2.ndjson',
      '2026-11-15.ndjson',
    ])
    const sizes = readdirSync(dir).map((name) => statSync(join(dir, name)).size)
    for (const size of sizes) expect(size).toBeLessThanOrEqual(SERVICE_LOGS.partBytes)
    expect(readLastLines(dir, 812).at(-1)).toBe('last')
    appendFileSync(join(dir, '2026-11-15.ndjson'), '{"t":"2026-11-15T10')
    const next = open()
    next.write('out', Buffer.from('after\n'))
    next.close()
    expect(readLastLines(dir, 812).slice(-2)).toEqual(['last', 'after'])
  })

  it('repeats no line when another writer takes it up, line by line of one moment', async () => {
    const engine = ['a1 out', 'a2 out', 'a3 err', 'a3 out', 'b1 out', 'b2 err', 'b2 out', 'c1 out']
    const at = (line: string) => `2026-11-15T10:00:0${line.charCodeAt(0) - 96}.000000001Z`
    const feed = (log: ServiceLog, lines: string[]) => {
      for (const line of lines) {
        const source = line.endsWith('err') ? 'err' : 'out'
        log.write(source, Buffer.from(`${line}\n`), at(line))
      }
      log.abandon() // a crash: what is not in the file is lost
    }
    for (let cut = 0; cut <= engine.length; cut += 1) {
      rmSync(dir, { recursive: true })
      const [masker, made] = [new Masker([]), new Date('2026-11-15T09:00:00Z')]
      feed(new ServiceLog(dir, 812, masker), engine.slice(0, cut))
      feed(new ServiceLog(dir, 813, masker), ['a1 other'])
      feed(new ServiceLog(dir, 812, masker, { replica: 2 }), ['d9 replica'])
      const resume = await findResume(dir, { taskId: 812, replica: 1 }, made)
      const again = engine.filter((line) => at(line) >= (resume?.since ?? ''))
      feed(new ServiceLog(dir, 812, masker, { resume }), again)
      const own = readLastLines(dir, 812).filter((line) => line !== 'd9 replica')
      expect(own, `cut ${cut}`).toEqual(engine)
    }
  })
})

it('reads the last 50 lines of one deployment only', () => {
  const old = open(811)
  old.write('out', Buffer.from('old\n'))
  old.close()
  const log = open(812)
  for (let i = 1; i <= 70; i += 1) log.write(i % 2 ? 'out' : 'err', Buffer.from(`line ${i}\n`))
  log.close()
  const lines = readLastLines(dir, 812)
  expect(lines).toHaveLength(50)
  expect([lines[0], lines.at(-1)]).toEqual(['line 21', 'line 70'])
  expect(readLastLines(dir, 811)).toEqual(['old'])
  expect(readLastLines(join(dir, 'none'), 811)).toEqual([])
})
