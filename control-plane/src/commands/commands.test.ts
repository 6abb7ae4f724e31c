import { VERSION } from '@berth/shared/version'
import { expect, test } from 'vitest'
import { runCommand } from './commands.ts'

async function run(...args: string[]): Promise<{ code: number | undefined; said: string }> {
  const said: string[] = []
  const code = await runCommand({ args, env: {}, print: (text) => said.push(text) })
  return { code, said: said.join('\n') }
}

test('help lists every command, and --version says the release', async () => {
  const { code, said } = await run('--help')
  expect(code).toBe(0)
  expect(said).toMatch(/^Usage: berth-server \[COMMAND\]/)
  expect(said).toMatch(/^ {2}verify-audit +Check the chain/m)
  expect(await run('--version')).toEqual({ code: 0, said: VERSION })
})

test('an unknown command is refused with the list', async () => {
  await expect(run('verify')).rejects.toThrow(/There is no command verify\.\n\nUsage:/)
  await expect(run('constructor')).rejects.toThrow(/There is no command constructor/)
})
