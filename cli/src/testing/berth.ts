// Runs the real client in tests: a child process with real argv, signals and exit codes, behind pipes or in a terminal
// (node-pty of the agent package, else script(1)). The set-up of all tests bundles it as it is shipped.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'

export const CLIENT_SOURCE = fileURLToPath(new URL('../main.ts', import.meta.url))
export const CLIENT_MAIN = process.env.BERTH_TEST_CLIENT ?? CLIENT_SOURCE
const AGENT = new URL('../../../agent/package.json', import.meta.url)
/** Below node_modules, where no other program writes. */
const COMPILE_CACHE = fileURLToPath(
  new URL('../../../node_modules/.cache/berth-cli', import.meta.url),
)
const folders: string[] = []

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-cli-'))
  folders.push(folder)
  return folder
}

interface Surroundings {
  env?: Record<string, string>
  stdin?: string
  cwd?: string
  /** Another one than the bundle. */
  program?: string
}

/** A configuration folder that does not exist; a command that writes it cannot affect other tests. */
export const nowhere = (): string => join(tmpdir(), `berth-none-${randomUUID()}`)

/** Isolates tests from the machine's own settings; polls are fast. */
export function testEnvironment(more: Record<string, string> = {}): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    HOME: '/nonexistent',
    TZ: 'UTC',
    TERM: 'xterm-256color',
    BERTH_POLL_MS: '20',
    NODE_COMPILE_CACHE: COMPILE_CACHE,
    ...more,
  }
}

/** Logged in to `url` by variables. */
export const asUser = (url: string, more: Record<string, string> = {}): Record<string, string> => ({
  BERTH_URL: url,
  BERTH_TOKEN: 'berth_pat_test',
  BERTH_CONFIG_DIR: nowhere(),
  ...more,
})

/** Characters that a terminal could obey; line endings and tabs are fine. */
export const controlCharacters = (text: string): string[] =>
  text.replace(/[\r\n\t]/g, '').match(/\p{Cc}/gu) ?? []

interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

interface Running {
  ended: Promise<Ended>
  /** Resolves when the output (both streams) matches. */
  shows(pattern: RegExp): Promise<void>
  interrupt(signal?: NodeJS.Signals): void
}

interface InTerminal extends Running {
  /** What a user types. */
  type(text: string): void
}

class Output {
  text = ''
  readonly #waiting: { pattern: RegExp; resolve: () => void }[] = []

  add(chunk: string): void {
    this.text += chunk
    for (const one of this.#waiting) if (one.pattern.test(this.text)) one.resolve()
  }

  shows(pattern: RegExp): Promise<void> {
    if (pattern.test(this.text)) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ pattern, resolve }))
  }
}

export function startBerth(args: string[], surroundings: Surroundings = {}): Running {
  const child: ChildProcess = spawn(
    process.execPath,
    [surroundings.program ?? CLIENT_MAIN, ...args],
    {
      env: testEnvironment(surroundings.env),
      cwd: surroundings.cwd ?? tmpdir(),
      stdio: 'pipe',
    },
  )
  const both = new Output()
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk
    both.add(chunk)
  })
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    stderr += chunk
    both.add(chunk)
  })
  child.stdin?.on('error', () => {}) // it need not read
  child.stdin?.end(surroundings.stdin ?? '')
  return {
    ended: new Promise((resolve) => {
      child.on('close', (code) => resolve({ code, stdout, stderr }))
    }),
    shows: (pattern) => both.shows(pattern),
    interrupt: (signal = 'SIGINT') => void child.kill(signal),
  }
}

export const berth = (args: string[], surroundings: Surroundings = {}): Promise<Ended> =>
  startBerth(args, surroundings).ended

interface Pty {
  onData(listener: (data: string) => void): void
  onExit(listener: (end: { exitCode: number }) => void): void
  write(data: string): void
}
interface PtyModule {
  spawn(file: string, args: string[], options: object): Pty
}

function loadPty(): PtyModule | undefined {
  if (process.env.BERTH_TEST_PTY === 'script') return undefined
  try {
    return createRequire(AGENT)('node-pty') as PtyModule
  } catch {
    return undefined
  }
}

const shellQuote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`

/** In a terminal of 100 columns, which merges both streams. */
export function startInTerminal(args: string[], surroundings: Surroundings = {}): InTerminal {
  const env = testEnvironment(surroundings.env)
  const cwd = surroundings.cwd ?? tmpdir()
  const output = new Output()
  const pty = loadPty()
  if (pty) {
    const options = { env, cwd, cols: 100, rows: 40, name: env.TERM }
    const child = pty.spawn(process.execPath, [CLIENT_MAIN, ...args], options)
    child.onData((data) => output.add(data))
    return {
      ended: new Promise((resolve) => {
        child.onExit(({ exitCode }) =>
          resolve({ code: exitCode, stdout: output.text, stderr: output.text }),
        )
      }),
      shows: (pattern) => output.shows(pattern),
      interrupt: () => child.write('\u0003'),
      type: (text) => child.write(text),
    }
  }
  const line = [
    'stty cols 100 rows 40; exec',
    ...[process.execPath, CLIENT_MAIN, ...args].map(shellQuote),
  ]
  const child = spawn('script', ['-qfec', line.join(' '), '/dev/null'], { env, cwd, stdio: 'pipe' })
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => output.add(chunk))
  return {
    ended: new Promise((resolve) => {
      child.on('close', (code) => resolve({ code, stdout: output.text, stderr: output.text }))
    }),
    shows: (pattern) => output.shows(pattern),
    interrupt: () => void child.stdin.write('\u0003'),
    type: (text) => void child.stdin.write(text),
  }
}

export const berthInTerminal = (args: string[], surroundings: Surroundings = {}): Promise<Ended> =>
  startInTerminal(args, surroundings).ended
