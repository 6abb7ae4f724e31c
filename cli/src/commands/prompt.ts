// Questions to the user. Asked only where a user is sure to see and answer them: stdin and stderr are a terminal, and
// no flag disables questions. Otherwise the caller names the flag that answers instead.

import type { Context } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, usage } from '../terminal/exit.ts'
import { cleanText } from '../terminal/text.ts'

export function mayAsk({ io, globals }: Pick<Context, 'io' | 'globals'>): boolean {
  const inTerminal = io.stdin.isTTY && io.stderr.isTTY && io.env.CI !== 'true'
  return inTerminal && globals.input && !globals.json
}

/** Anything but a clear yes means no. */
export async function askYes({ io }: Pick<Context, 'io'>, question: string): Promise<boolean> {
  await io.stderr.write(`${cleanText(question)} [y/N] `)
  const answer = await io.stdin.readLine(CLIENT.answerLineBytes)
  if (answer === null) await io.stderr.write('\n')
  return /^\s*y(es)?\s*$/i.test(answer ?? '')
}

/** An answer that is typed; empty text means the offered one. */
export async function askText(
  { io }: Pick<Context, 'io'>,
  question: string,
  offered?: string,
): Promise<string> {
  const shown = offered === undefined ? '' : ` [${offered}]`
  await io.stderr.write(cleanText(`${question}${shown}: `))
  const answer = await io.stdin.readLine(CLIENT.answerLineBytes)
  if (answer === null) throw new CliError(EXIT.refused, 'no answer; nothing was done')
  return answer.trim() || (offered ?? '')
}

/** Throws unless the user or --yes confirms. */
export async function confirmYes(context: Context, question: string): Promise<void> {
  if (context.globals.yes) return
  if (!mayAsk(context)) throw usage(`${question} Nothing was done`, 'add --yes')
  if (await askYes(context, question)) return
  throw new CliError(EXIT.refused, 'not confirmed; nothing was done')
}

/** For irreversible changes: the exact name, from --confirm, by --yes, or typed. `what` says what will happen. */
export async function confirmName(
  context: Context,
  given: string | undefined,
  name: string,
  what: string,
): Promise<string> {
  if (given !== undefined) return given // the server checks it
  if (context.globals.yes) return name
  if (!mayAsk(context)) throw usage(`${what}; nothing was done`, `add --yes, or --confirm ${name}`)
  await context.io.stderr.write(cleanText(`${what}. Type ${name} to continue: `))
  const typed = await context.io.stdin.readLine(CLIENT.answerLineBytes)
  if (typed?.trim() === name) return name
  throw new CliError(EXIT.refused, `that is not ${name}; nothing was done`)
}

/** A value that is typed without echo. */
export async function askSecret(context: Context, question: string): Promise<string> {
  await context.io.stderr.write(cleanText(question))
  const typed = await context.io.stdin.readSecret(CLIENT.stdinBytes)
  if (typed === null) throw new CliError(EXIT.refused, 'no value was typed; nothing was done')
  return typed
}
