// berth-server [COMMAND]: the program of the control plane.
import { runCommand } from './commands/commands.ts'
import { describeFault } from './commands/faults.ts'

try {
  const { env, argv } = process
  const code = await runCommand({ args: argv.slice(2), env, print: console.log })
  if (code !== undefined) process.exit(code)
} catch (error) {
  console.error(`error: ${describeFault(error)}`)
  process.exit(1)
}
