// The fast path for `--version`, which needs neither the command table nor the argument parser; every script that looks
// for the client asks for the version first.
import type { Globals } from './context.ts'
import type { Io } from './terminal/io.ts'

const USUAL: Globals = {
  project: undefined,
  env: undefined,
  org: undefined,
  url: undefined,
  cacert: undefined,
  json: false,
  color: true,
  quiet: false,
  verbose: false,
  input: true,
  yes: false,
}

export async function start(argv: readonly string[], io: Io): Promise<number> {
  if (argv.length === 1 && argv[0] === '--version') {
    const { openScreen } = await import('./terminal/terminal.ts')
    const { showVersion } = await import('./commands/version.ts')
    const connect = () => Promise.reject(new Error('a version needs no connection'))
    return showVersion({ io, globals: USUAL, screen: openScreen(io, USUAL), connect })
  }
  const { run } = await import('./program/invoke.ts')
  return run(argv, io)
}
