// What a failed build means, as a sentence for a person. Pure.
import type { BuildOutcome } from './build-follower.ts'
import { type EngineError, saysDiskFull } from './engine.ts'

export type BuildErrorKind =
  | 'build_failed'
  | 'out_of_memory'
  | 'disk_full'
  | 'canceled'
  | 'unavailable'

export class BuildError extends Error {
  override readonly name = 'BuildError'
  readonly kind: BuildErrorKind
  /** `[2/4] RUN npm ci`. */
  readonly step: string | undefined
  readonly exitCode: number | undefined
  /** Last lines of that step's output; they were given to `onText` before. */
  readonly lastLines: string

  constructor(kind: BuildErrorKind, message: string, facts: BuildFacts = {}) {
    super(message)
    this.kind = kind
    this.step = facts.step
    this.exitCode = facts.exitCode
    this.lastLines = facts.lastLines ?? ''
  }
}

interface BuildFacts {
  step?: string | undefined
  exitCode?: number | undefined
  lastLines?: string
}

export function toBuildError(
  failure: { cause: EngineError } | { outcome: BuildOutcome; isCanceled: boolean },
): BuildError {
  return 'cause' in failure ? fromEngine(failure.cause) : fromOutcome(failure)
}

function fromEngine({ kind, message }: EngineError): BuildError {
  if (kind === 'canceled') return new BuildError('canceled', 'The build was canceled.')
  if (kind === 'unavailable') return new BuildError('unavailable', message)
  if (kind === 'disk_full') return new BuildError('disk_full', `The disk is full: ${message}.`)
  return new BuildError('build_failed', `The engine refused the build: ${message}.`)
}

function fromOutcome({
  outcome,
  isCanceled,
}: {
  outcome: BuildOutcome
  isCanceled: boolean
}): BuildError {
  if (isCanceled) return new BuildError('canceled', 'The build was canceled.')
  const { error, step, lastLines } = outcome
  if (error === undefined) {
    const message = 'the build ended without an image; the connection to the engine was lost'
    return new BuildError('unavailable', message)
  }
  const exitCode = readExitCode(error)
  const facts: BuildFacts = { step: step?.name, exitCode, lastLines }
  if (saysDiskFull(error) || saysDiskFull(lastLines)) {
    return new BuildError('disk_full', `The disk is full: ${nameOf(step?.name)} failed.`, facts)
  }
  if (exitCode === 137 || saysKilled(lastLines)) {
    const message = `The build was stopped by the kernel: ${nameOf(step?.name)} needed more memory than there is.`
    return new BuildError('out_of_memory', message, facts)
  }
  return new BuildError('build_failed', explain(error, step?.name, exitCode), facts)
}

const readExitCode = (error: string): number | undefined => {
  const code = /exit code: (\d+)/.exec(error)?.[1]
  return code === undefined ? undefined : Number(code)
}

/** What shells and compilers write about a child that the kernel ended; they themselves exit with 1. */
const saysKilled = (lines: string): boolean =>
  /^(?:.*\s)?Killed$|Killed signal terminated program|signal: killed|SIGKILL/m.test(
    lines.split('\n').slice(-5).join('\n'),
  )

/** `[2/4] RUN npm ci` → `RUN npm ci`, in backticks. */
const nameOf = (step: string | undefined): string =>
  step ? `\`${step.replace(/^\[[^\]]*\] /, '')}\`` : 'The build'

function explain(error: string, step: string | undefined, exitCode: number | undefined): string {
  if (exitCode !== undefined) return `${nameOf(step)} exited with ${exitCode}.`
  return `${error.trim().replace(/\.?$/, '.')}`
}
