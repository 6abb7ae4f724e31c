// Lines per second that the stages of the log path take on one core: `npm run bench -- output`. Figures are lines per
// second of this process's processor time (user and system), so that a busy machine does not lower them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeChunk, forEachRecord, LogSource, parseLogUp, sumData } from '@berth/shared/wire'
import { Output } from '../../agent/src/runner/output.ts'
import { SpoolReader } from '../../agent/src/spool/reader.ts'
import { SpoolWriter } from '../../agent/src/spool/writer.ts'

const LINES = 1_000_000
const WORDS =
  'step 3/7 fetched package node_modules cache warn compiled in 12.3ms src/index.ts'.split(' ')

/** 64 KiB as a pipe delivers them, in lines of 80 bytes. */
function makeChunk(ending: string): { chunk: Buffer; lines: number } {
  const lines: string[] = []
  for (let n = 0; n < 819; n++) {
    let line = `${n} `
    while (line.length < 80) line += `${WORDS[(n * 7 + line.length) % WORDS.length]} `
    lines.push(line.slice(0, 80 - ending.length) + ending)
  }
  return { chunk: Buffer.from(lines.join('')), lines: lines.length }
}

function measure(name: string, work: () => number): void {
  const before = process.cpuUsage()
  const startedAt = performance.now()
  const lines = work()
  const wallMs = performance.now() - startedAt
  const { user, system } = process.cpuUsage(before)
  const perSecond = (lines / ((user + system) / 1e6)).toFixed(0)
  const wallNs = ((wallMs / lines) * 1e6).toFixed(0)
  const figures = `${perSecond.padStart(10)} lines/cpu-s   ${wallNs.padStart(5)} ns/line wall`
  console.log(`${name.padEnd(44)} ${figures}`)
}

function writeLines(folder: string, source: LogSource, ending: string, values: string[]): number {
  const spool = SpoolWriter.create(folder, { headBytes: Number.MAX_SAFE_INTEGER })
  let clock = 0
  const output = new Output({ spool, now: () => clock, nowUs: () => 1_780_000_000_000_000 + clock })
  output.setValues(values)
  const { chunk, lines } = makeChunk(ending)
  let written = 0
  for (; written < LINES; written += lines) {
    output.write(source, chunk)
    clock += 5
    if (clock % 50 === 0) output.tick()
  }
  output.finish()
  return written
}

const root = mkdtempSync(join(tmpdir(), 'berth-bench-'))
try {
  const values = Array.from({ length: 50 }, (_, n) =>
    n % 2 === 0
      ? `postgres://app${n}:${'s3cr3t'.repeat(3)}${n}@db:5432/app`
      : `tok_${n}_${'9fA7'.repeat(7)}`,
  )
  for (const round of ['warm-up', 'measured']) {
    const folder = (name: string): string => join(root, `${round}-${name}`)
    console.log(round)
    measure('Output.write, pipe', () => writeLines(folder('a'), LogSource.STDOUT, '\n', []))
    measure('Output.write, pipe, 50 values', () =>
      writeLines(folder('b'), LogSource.STDOUT, '\n', values),
    )
    measure('Output.write, terminal', () => writeLines(folder('c'), LogSource.PTY, '\r\n', []))
    measure('Output.write, terminal, 50 values', () =>
      writeLines(folder('d'), LogSource.PTY, '\r\n', values),
    )
    const messages: Buffer[] = []
    measure('SpoolReader.read', () => {
      const reader = SpoolReader.open(folder('a'))
      let count = 0
      for (let batch = reader.read(); batch !== undefined; batch = reader.read())
        count += batch.count
      reader.close()
      return count
    })
    measure('SpoolReader.read + encodeChunk', () => {
      const reader = SpoolReader.open(folder('a'))
      let count = 0
      for (let batch = reader.read(); batch !== undefined; batch = reader.read()) {
        messages.push(encodeChunk('0197b1c2', 7n, batch.firstSeq, batch.records, batch.crc32c))
        count += batch.count
      }
      reader.close()
      return count
    })
    measure('parseLogUp + forEachRecord', () => {
      let count = 0
      let bytes = 0
      for (const message of messages) {
        const parsed = parseLogUp(message)
        if (parsed.kind !== 'chunk') continue
        count += forEachRecord(parsed.records, (_time, _source, _step, start, end) => {
          bytes += end - start
        })
      }
      return bytes > 0 ? count : 0
    })
    measure('parseLogUp + sumData (the checksum)', () => {
      let count = 0
      for (const message of messages) {
        const parsed = parseLogUp(message)
        if (parsed.kind === 'chunk' && sumData(parsed.records).crc32c === parsed.crc32c) {
          count += parsed.count
        }
      }
      return count
    })
    rmSync(root, { recursive: true })
  }
} finally {
  rmSync(root, { recursive: true, force: true })
}
