// What a command receives: its words, the outside world, and a connection when it asks for one.
import type { Api } from './client/api.ts'
import type { SessionFlags } from './client/login.ts'
import type { Io } from './terminal/io.ts'
import type { OutputFlags, Screen } from './terminal/terminal.ts'

export interface Globals extends SessionFlags, OutputFlags {
  project: string | undefined
  env: string | undefined
  /** false: never ask, fail instead. */
  input: boolean
  yes: boolean
}

export type Flags = Readonly<Record<string, unknown>>

export interface Invocation {
  args: readonly string[]
  /** Words after `--`, for the commands that pass them on. */
  rest?: readonly string[]
  flags: Flags
  globals: Globals
}

export interface Context {
  io: Io
  globals: Globals
  screen: Screen
  /** Opened once per command; refuses without a login. */
  connect(): Promise<Api>
}

/** Returns the exit code: one of `exit.ts`, or that of a command that `berth ssh` ran on a server. */
export type Runnable = (invocation: Invocation, context: Context) => Promise<number>

/** A command: words → options (may refuse), options → effect. Both halves are tested separately. */
export const compose =
  <Options>(
    parse: (invocation: Invocation) => Options,
    perform: (options: Options, context: Context) => Promise<number>,
  ): Runnable =>
  (invocation, context) =>
    perform(parse(invocation), context)

export function flagText(flags: Flags, name: string): string | undefined {
  const value = flags[name]
  return typeof value === 'string' ? value : undefined
}

export const flagOn = (flags: Flags, name: string): boolean => flags[name] === true

export function flagList(flags: Flags, name: string): string[] {
  const value = flags[name]
  return Array.isArray(value) ? value.map(String) : []
}
