// Asks a program for its version, with a deadline and bounded output. Remembers it until the file changes, because
// starting programs every minute would be most of an idle agent's cost.
import { execFile } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DAEMON } from '@berth/shared'
import { SYSTEM_PATH } from './programs.ts'

/** The version and the file of each program. */
const known = new Map<string, { stamp: string; version: string }>()

/** Changes with the file; empty when there is none. */
function stampOf(program: string): string {
  for (const folder of program.startsWith('/') ? [''] : SYSTEM_PATH.split(':')) {
    const found = statSync(join(folder, program), { throwIfNoEntry: false })
    if (found) return `${folder} ${found.ino} ${found.size} ${found.mtimeMs}`
  }
  return ''
}

/** First match of the pattern in the program's output; empty when there is no program or no match. */
export async function askVersion(
  argv: readonly [string, ...string[]],
  pattern: RegExp,
  timeoutMs: number = DAEMON.probeMs,
): Promise<string> {
  const [program] = argv
  const stamp = stampOf(program)
  if (stamp === '') return ''
  const before = known.get(program)
  if (before?.stamp === stamp) return before.version
  const version = await runForVersion(argv, pattern, timeoutMs)
  if (version !== '') known.set(program, { stamp, version })
  return version
}

/** For any exit code. */
function runForVersion(
  argv: readonly [string, ...string[]],
  pattern: RegExp,
  timeout: number,
): Promise<string> {
  const [file, ...args] = argv
  return new Promise((resolve) => {
    const options = {
      timeout,
      maxBuffer: DAEMON.probeBytes,
      killSignal: 'SIGKILL' as const,
      env: { PATH: SYSTEM_PATH, LC_ALL: 'C', HOME: '/nonexistent' },
    }
    execFile(file, args, options, (_error, stdout, stderr) => {
      const match = pattern.exec(`${stdout}\n${stderr}`)
      resolve(match?.[1] ?? '')
    })
  })
}
