// An outside world in memory: a clock that advances only by sleeping, streams that collect.
import type { Io, Sink } from '../terminal/io.ts'

interface TestSink extends Sink {
  text: string
}

export function testSink(more: Partial<Sink> = {}): TestSink {
  return {
    isTTY: false,
    columns: 80,
    rows: 24,
    closed: false,
    text: '',
    async write(data) {
      this.text += typeof data === 'string' ? data : Buffer.from(data).toString('utf8')
    },
    ...more,
  }
}

export interface TestIo extends Io {
  stdout: TestSink
  stderr: TestSink
  /** The duration of each sleep. */
  sleeps: number[]
  /** Programs that were started. */
  launched: string[][]
  interrupt(): void
}

export function testIo(more: Partial<Io> = {}): TestIo {
  const interrupt = new AbortController()
  let now = Date.parse('2026-11-15T10:00:00Z')
  const sleeps: number[] = []
  const launched: string[][] = []
  return {
    stdin: {
      isTTY: false,
      read: async () => '',
      readLine: async () => null,
      readSecret: async () => null,
    },
    env: {},
    cwd: '/',
    platform: 'linux',
    launch(words) {
      launched.push([...words])
    },
    atExit: () => () => {},
    now: () => now,
    async sleep(ms) {
      sleeps.push(ms)
      now += ms
    },
    interrupted: interrupt.signal,
    ...more,
    stdout: testSink(more.stdout),
    stderr: testSink(more.stderr),
    sleeps,
    launched,
    interrupt: () => interrupt.abort(),
  }
}
