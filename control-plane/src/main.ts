// berth-server [COMMAND]: the program of the control plane.
import { runCommand } from './commands/commands.ts'

try {
  const { env, argv } = process
  const code = await runCommand({ args: argv.slice(2), env, print: console.log })
  if (code !== undefined) process.exit(code)
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(1)
}
