// `berth-server reset-two-factor EMAIL`: for a person who lost every factor; works while the control plane runs.
import { readConfig } from '../config.ts'
import { resetSecondFactor } from '../server.ts'
import type { CommandContext } from './command.ts'
import { readOptions } from './options.ts'

const USAGE = 'reset-two-factor EMAIL'

export async function resetTwoFactor({ args, env, print }: CommandContext): Promise<number> {
  const { positionals } = readOptions(args, {}, { usage: USAGE, positionals: 1 })
  const [email] = positionals
  if (email === undefined) throw new Error(`Name the account.\n\nUsage: berth-server ${USAGE}`)
  const name = await resetSecondFactor(readConfig(env), email)
  if (name === undefined) {
    print(`There is no account with the address ${email}.`)
    return 1
  }
  print(
    `${name} signs in with the password alone now. Browsers were signed out, and a mail says so.`,
  )
  return 0
}
