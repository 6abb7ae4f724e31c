// Reads the options of a command. A mistake gets a sentence and the usage.
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

type Values<T extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: T; strict: true; allowPositionals: true }>
>['values']

export function readOptions<T extends ParseArgsOptionsConfig>(
  args: string[],
  options: T,
  { usage, positionals: most = 0 }: { usage: string; positionals?: number },
): { values: Values<T>; positionals: string[] } {
  try {
    const read = parseArgs({ args, options, strict: true, allowPositionals: true })
    if (read.positionals.length <= most) return read
    throw new Error(`Unexpected argument '${read.positionals[most]}'.`)
  } catch (error) {
    throw new Error(`${(error as Error).message}\n\nUsage: berth-server ${usage}`)
  }
}
