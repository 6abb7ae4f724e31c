// One command of `berth-server`.

/** What a command gets; tests pass their own. */
export interface CommandContext {
  /** After the names of the command. */
  args: string[]
  env: NodeJS.ProcessEnv
  print: (text: string) => void
}

/** Returns the exit code; undefined: the process goes on until a signal ends it. */
export type Command = (context: CommandContext) => Promise<number | undefined>

/** For commands whose only option is `--json`. */
export function takesJson(args: readonly string[]): boolean {
  const unknown = args.find((arg) => arg !== '--json')
  if (unknown !== undefined) throw new Error(`There is no option ${unknown}; there is --json.`)
  return args.includes('--json')
}
