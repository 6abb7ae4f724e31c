// The exit codes of commands. Scripts rely on the numbers (`berth help exit-codes` prints this table); every refusal
// that the client makes or passes on is a CliError with one of them.
export const EXIT = {
  done: 0,
  error: 1,
  usage: 2,
  taskFailed: 3,
  notLoggedIn: 4,
  notFound: 5,
  refused: 6,
  timeout: 7,
  interrupted: 130,
} as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export const EXIT_MEANINGS: readonly (readonly [ExitCode, string])[] = [
  [0, 'done; with --wait: the task succeeded'],
  [1, 'error: network failure, server error, too many requests, unexpected response'],
  [2, 'usage: unknown flag, missing argument, invalid file in config validate'],
  [3, 'the task was started and failed or was canceled'],
  [4, 'not logged in, token refused, scope missing'],
  [5, 'not found or ambiguous'],
  [6, 'refused: already deploying, protected, no permission, limit, server or project not ready'],
  [7, '--timeout reached; the task continues'],
  [130, 'Ctrl-C; the task continues'],
]

/** Ends a command: one line with the problem and its cause, and one with the next step. */
export class CliError extends Error {
  readonly exitCode: ExitCode
  readonly hint: string | undefined

  constructor(exitCode: ExitCode, message: string, hint?: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'CliError'
    this.exitCode = exitCode
    this.hint = hint
  }
}

export const usage = (message: string, hint?: string): CliError =>
  new CliError(EXIT.usage, message, hint)

export const interrupted = (message = 'interrupted', hint?: string): CliError =>
  new CliError(EXIT.interrupted, message, hint)
