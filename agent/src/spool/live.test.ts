// Two real processes on one spool: one writes as fast as it can and is killed without warning, the other reads.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { forEachRecord, LogSource } from '@berth/shared/wire'
import { expect, test } from 'vitest'
import { blocksOf, readWhole } from './format.ts'
import { SpoolReader } from './reader.ts'
import { appendTailAfterDeath } from './tail.ts'

const writerOf = (limits: object): string => `
  import { SpoolWriter } from ${JSON.stringify(new URL('./writer.ts', import.meta.url).href)}
  const writer = SpoolWriter.create(process.argv[1], ${JSON.stringify(limits)})
  console.log('begun')
  for (let n = 1; ; n++) {
    const line = Buffer.from(n + ' ' + 'x'.repeat(n % 150) + '\\n')
    writer.append(n, ${LogSource.STDOUT}, 0, line)
    if (n % 37 === 0) writer.flush()
  }
`

/** Reads some of the available batches; line n must be record n up to the gap of the tail. */
function follow(
  reader: SpoolReader,
  state: { lines: number; gaps: number },
  batches: number,
): void {
  for (let n = 0; n < batches; n++) {
    const batch = reader.read()
    if (batch === undefined) return
    const { records } = batch
    let seq = batch.firstSeq
    forEachRecord(records, (n, source, _step, start, end) => {
      if (source === LogSource.GAP) state.gaps++
      else if (state.gaps === 0) {
        if (
          n !== seq ||
          records.toString('latin1', start, end) !== `${n} ${'x'.repeat(n % 150)}\n`
        ) {
          throw new Error(`record ${seq} is not line ${n}`)
        }
        state.lines = n
      }
      seq++
    })
  }
}

const LINES = 5_000
/** The first tail file was overwritten, so records are missing for good. */
const tailHasTurned = (log: string): boolean =>
  (blocksOf(readWhole(join(log, 'tail-a'))).next().value?.header.firstSeq ?? 1) > 1

test.each([
  { where: 'head', headBytes: 1e12, isEnough: (_log: string, n: number) => n >= LINES, gaps: 0 },
  { where: 'tail', headBytes: 4e6, isEnough: tailHasTurned, gaps: 1 },
])('a runner that is killed in its $where leaves a whole log', async (given) => {
  const { headBytes, isEnough, gaps } = given
  const limits = { segmentBytes: 65_536, headBytes, tailBytes: 100_000 }
  const folder = mkdtempSync(join(tmpdir(), 'berth-live-'))
  const log = join(folder, 'log')
  const child = spawn(process.execPath, ['--input-type=module', '-e', writerOf(limits), log], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  try {
    await once(child.stdout, 'data')
    const reader = SpoolReader.open(log)
    const state = { lines: 0, gaps: 0 }
    const deadline = performance.now() + 30_000
    while (!isEnough(log, state.lines) && performance.now() < deadline) {
      follow(reader, state, 10)
      await setImmediate()
    }
    child.kill('SIGKILL')
    await exited
    const end = appendTailAfterDeath(log, limits)
    reader.end(end.finalSeq)
    follow(reader, state, Number.POSITIVE_INFINITY)
    expect(state.lines).toBeGreaterThanOrEqual(LINES)
    expect(reader.nextSeq).toBe(end.finalSeq + 1)
    expect(state.gaps).toBe(gaps)
    reader.close()
  } finally {
    child.kill('SIGKILL')
    await exited
    rmSync(folder, { recursive: true, force: true })
  }
})
