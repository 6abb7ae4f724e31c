// Questions to a person. Only where one is sure to see and answer them: stdin and stderr are a terminal, and nothing
// asked for a run without questions. Everywhere else the caller names the flag that answers instead.
import { CLIENT } from '@berth/shared/client-limits'
import type { Context } from './context.ts'
import { cleanText } from './text.ts'

export function mayAsk({ io, globals }: Pick<Context, 'io' | 'globals'>): boolean {
  const inTerminal = io.stdin.isTTY && io.stderr.isTTY && io.env.CI !== 'true'
  return inTerminal && globals.input && !globals.json
}

/** Anything but a clear yes is a no. */
export async function askYes({ io }: Pick<Context, 'io'>, question: string): Promise<boolean> {
  await io.stderr.write(`${cleanText(question)} [y/N] `)
  const answer = await io.stdin.readLine(CLIENT.answerLineBytes)
  if (answer === null) await io.stderr.write('\n')
  return /^\s*y(es)?\s*$/i.test(answer ?? '')
}
