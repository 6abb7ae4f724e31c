// Real terminals and real pipes: every byte arrives, also those written just before the exit.
import { createHash } from 'node:crypto'
import { LogSource } from '@berth/shared/wire'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Exit, loadPty, type Pty, startUnderTerminal, startWithPipes } from './commands.ts'
import { readProcess } from './processes.ts'
import { SYSTEM_PATH } from './programs.ts'

const env = { PATH: SYSTEM_PATH, LANG: 'C.UTF-8' }
let pty: Pty | undefined

beforeAll(async () => {
  pty = await loadPty()
  if (!pty && process.env.CI === 'true') throw new Error('node-pty is missing')
})

interface Result {
  exit: Exit
  sources: Set<LogSource>
  text: string
}

async function run(
  script: string,
  terminal: boolean,
  during?: (command: { interrupt(): void; pid: number }, text: string) => void,
): Promise<Result> {
  const parts: Buffer[] = []
  const sources = new Set<LogSource>()
  const onOutput = (source: LogSource, chunk: Buffer): void => {
    sources.add(source)
    parts.push(chunk)
    during?.(command, Buffer.concat(parts).toString())
  }
  const start = { argv: ['/bin/sh', '-c', script], env, onOutput }
  const command = terminal ? startUnderTerminal(pty as Pty, start) : startWithPipes(start)
  const exit = await command.exited
  return { exit, sources, text: Buffer.concat(parts).toString() }
}

const LINES = 200_000
const numbers = (ending: string): string =>
  Array.from({ length: LINES }, (_, i) => `${i + 1}${ending}`).join('')
const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

describe('under a terminal', () => {
  it('loses no byte of 200,000 lines before an immediate exit, ten times', async (t) => {
    if (!pty) return t.skip('node-pty is not installed')
    const expected = digest(numbers('\r\n'))
    for (let round = 0; round < 10; round += 1) {
      const { exit, text } = await run(`seq 1 ${LINES}; exit 3`, true)
      expect(exit).toEqual({ code: 3, signal: null })
      expect(digest(text)).toBe(expected)
    }
  })

  it('has all output also while the reader is slow and the end comes first', async (t) => {
    if (!pty) return t.skip('node-pty is not installed')
    const parts: Buffer[] = []
    const start = {
      argv: ['/bin/sh', '-c', 'seq 1 5000; exit 0'],
      env,
      onOutput: (_: LogSource, chunk: Buffer) => {
        parts.push(chunk)
        const end = performance.now() + 5 // a slow disk
        while (performance.now() < end);
      },
    }
    await startUnderTerminal(pty, start).exited
    const lines = Buffer.concat(parts).toString().split('\r\n')
    expect(lines.length).toBe(5_001)
    expect(lines.at(-2)).toBe('5000')
  })

  it('ends with the command although a child keeps the terminal open', async (t) => {
    if (!pty) return t.skip('node-pty is not installed')
    const { exit, text } = await run("trap '' HUP; sleep 60 & echo $!; exit 0", true)
    expect(exit.code).toBe(0)
    const pid = Number(text.trim())
    expect(readProcess(pid)).toBeDefined()
    process.kill(pid, 'SIGKILL')
  })

  it('is a terminal of 120 × 40 that passes ^C to the command', async (t) => {
    if (!pty) return t.skip('node-pty is not installed')
    const script =
      "stty size; trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    let asked = false
    const { exit, text, sources } = await run(script, true, (command, soFar) => {
      if (asked || !soFar.includes('ready')) return
      asked = true
      command.interrupt()
    })
    expect(text).toMatch(/^40 120\r\nready\r\n/)
    expect(text).toMatch(/caught/)
    expect(exit).toEqual({ code: 7, signal: null })
    expect([...sources]).toEqual([LogSource.PTY])
  })

  it('names the signal that ended the command', async (t) => {
    if (!pty) return t.skip('node-pty is not installed')
    const { exit } = await run('kill -KILL $$', true)
    expect(exit).toEqual({ code: null, signal: 'SIGKILL' })
  })
})

describe('with pipes', () => {
  it('loses no byte of 200,000 lines before an immediate exit', async () => {
    const expected = digest(numbers('\n'))
    for (let round = 0; round < 3; round += 1) {
      const { exit, text } = await run(`seq 1 ${LINES}; exit 3`, false)
      expect(exit).toEqual({ code: 3, signal: null })
      expect(digest(text)).toBe(expected)
    }
  })

  it('keeps output and errors apart, leads its own session and ends by SIGTERM', async () => {
    let asked = false
    const script = 'echo out; echo err >&2; echo $$; exec sleep 60'
    const { exit, sources } = await run(script, false, (command, soFar) => {
      if (asked || !/^\d+$/m.test(soFar)) return
      asked = true
      expect(readProcess(command.pid)?.session).toBe(command.pid)
      command.interrupt()
    })
    expect(exit).toEqual({ code: null, signal: 'SIGTERM' })
    expect([...sources].sort()).toEqual([LogSource.STDOUT, LogSource.STDERR])
  })

  it('ends with the command although a child keeps the pipes open', async () => {
    const { exit, text } = await run('sleep 60 & echo $!; exit 0', false)
    expect(exit.code).toBe(0)
    process.kill(Number(text.trim()), 'SIGKILL')
  })
})
