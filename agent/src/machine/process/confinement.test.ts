// Folders, variables and the command itself reach the command unchanged, however they are spelled.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { renderShellFile } from '../../runner/plan/variable-files.ts'
import { confineCommand } from './confinement.ts'
import { runProgram } from './programs.ts'

const NASTY = [
  '; touch pwned',
  '$(touch pwned)',
  '`touch pwned`',
  '&& touch pwned',
  `'"'`,
  '-rf',
  '--',
  'a\nb',
  ' ',
]
let dir: string

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-confine-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

async function run(command: string, directory: string, additions: Record<string, string> = {}) {
  const variablesFile = join(dir, 'v.sh')
  const values = new Map(NASTY.map((value, index) => [`V${index}`, value]))
  writeFileSync(variablesFile, renderShellFile(values))
  const inside = { account: undefined, cgroupFiles: [], directory, variablesFile, additions }
  const argv = confineCommand(command, { ...inside, hasTerminal: false })
  expect(argv.at(-1)).toBe(command)
  return runProgram(argv, { env: { PATH: '/usr/bin:/bin' } })
}

describe('a confined command', () => {
  it.each(NASTY)('runs in a folder named %j', async (name) => {
    const folder = join(dir, `x${name}`)
    mkdirSync(folder)
    const { stdout, code } = await run('pwd', folder)
    expect([code, stdout.toString()]).toEqual([0, `${folder}\n`])
    expect(existsSync(join(folder, 'pwned')) || existsSync('pwned')).toBe(false)
  })

  it('gets every variable with every character', async () => {
    const shown = NASTY.map((_, index) => `"$V${index}"`).join(' ')
    const { stdout } = await run(`printf '%s\\0' ${shown} "$ADDED"`, dir, { ADDED: NASTY.join() })
    expect(stdout.toString().split('\0').slice(0, -1)).toEqual([...NASTY, NASTY.join()])
    expect(existsSync(join(dir, 'pwned'))).toBe(false)
  })

  it('stops at the first failure and at an unset name, and reads nothing', async () => {
    expect((await run('false; echo after', dir)).stdout.toString()).toBe('')
    expect((await run('echo "$NO_SUCH_NAME"; echo after', dir)).code).not.toBe(0)
    expect((await run('cat; echo end; umask', dir)).stdout.toString()).toBe('end\n0027\n')
  })

  it('does not start in a folder that is gone, or without its variables', async () => {
    expect((await run('echo started', join(dir, 'gone'))).stdout.toString()).toBe('')
    const inside = { account: undefined, cgroupFiles: [], directory: dir, additions: {} }
    const argv = confineCommand('echo started', {
      ...inside,
      variablesFile: join(dir, 'none.sh'),
      hasTerminal: false,
    })
    expect((await runProgram(argv)).stdout.toString()).toBe('')
  })
})
