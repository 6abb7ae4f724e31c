// Turns a failed build into a sentence for a person. Pure.
import { BUILDS } from '../../../limits/docker.ts'
import type { MemoryCause } from '../../memory.ts'
import { type EngineError, saysDiskFull } from '../engine-error.ts'
import type { BuildOutcome } from './follower.ts'

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
  /** Last lines of that step's output; `onText` got them before. */
  readonly lastLines: string
  /** Why the kernel killed it; undefined if it was not killed, or had no limit. */
  readonly memoryCause: MemoryCause | undefined

  constructor(kind: BuildErrorKind, message: string, facts: BuildFacts = {}) {
    super(message)
    this.kind = kind
    this.step = facts.step
    this.exitCode = facts.exitCode
    this.lastLines = facts.lastLines ?? ''
    this.memoryCause = facts.memoryCause
  }
}

interface BuildFacts {
  step?: string | undefined
  exitCode?: number | undefined
  lastLines?: string
  memoryCause?: MemoryCause | undefined
}

/** The build was cut off before it ended. */
export function fromEngineError({ kind, message }: EngineError): BuildError {
  if (kind === 'canceled') return new BuildError('canceled', 'The build was canceled.')
  if (kind === 'unavailable') return new BuildError('unavailable', message)
  if (kind === 'disk_full') return new BuildError('disk_full', `The disk is full: ${message}.`)
  return new BuildError('build_failed', `The engine refused the build: ${message}.`)
}

interface BuildContext {
  dockerfile: string
  /** Undefined when no command had a limit. */
  memoryCause?: MemoryCause
}

/** The build ended without an image. */
export function fromOutcome(outcome: BuildOutcome, context: BuildContext): BuildError {
  const { error, step, lastLines } = outcome
  if (error === undefined) {
    return new BuildError('unavailable', 'the connection was lost before the build had an image')
  }
  const exitCode = readExitCode(error)
  const facts: BuildFacts = { step: step?.name, exitCode, lastLines }
  const subject = nameOf(step?.name)
  if (saysDiskFull(error) || saysDiskFull(lastLines)) {
    return new BuildError('disk_full', `The disk is full: ${subject} found no room.`, facts)
  }
  if (exitCode === KILLED || saysKilled(lastLines)) {
    const message = `The build was stopped by the kernel: ${subject} needed more memory than there is.`
    return new BuildError('out_of_memory', message, { ...facts, memoryCause: context.memoryCause })
  }
  return new BuildError('build_failed', explain(clean(error), facts, context.dockerfile), facts)
}

/** 128 and SIGKILL. */
const KILLED = 137

const readExitCode = (error: string): number | undefined => {
  const code = /exit code: (\d+)/.exec(error)?.[1]
  return code === undefined ? undefined : Number(code)
}

/** What shells and compilers write about a child that the kernel killed; they themselves exit with 1 or 2. */
const saysKilled = (lines: string): boolean =>
  /(?:^|\s)Killed$|Killed signal terminated program|signal: killed|SIGKILL/m.test(
    lines.split('\n').slice(-5).join('\n'),
  )

/** `[2/4] RUN npm ci` → `RUN npm ci`, in backticks. */
export function nameOf(step: string | undefined): string {
  if (!step) return 'the build'
  const name = step.replace(/^\[[^\]]*\] /, '').replace(/\s+/g, ' ')
  return `\`${name.length > BUILDS.nameLength ? `${name.slice(0, BUILDS.nameLength)}…` : name}\``
}

/** Without the engine's prefixes. */
const clean = (error: string): string =>
  error
    .replace(
      /^(?:failed to (?:solve|create|process)[\w. -]*: |rpc error: code = \w+ desc = )+/i,
      '',
    )
    .replace(/(?:: not found)+$/, '')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/\.$/, '')

const NO_SECRETS =
  'Secret and ssh mounts of a build are not supported: nothing is mounted. Use build.args for what is no secret.'

function explain(error: string, { step = '', exitCode }: BuildFacts, dockerfile: string): string {
  const hasSecrets = /--mount=\S*type=(?:secret|ssh)\b/.test(step)
  const hint = hasSecrets ? ` ${NO_SECRETS}` : ''
  if (exitCode !== undefined) return `${nameOf(step)} exited with ${exitCode}.${hint}`
  if (hasSecrets) return `${nameOf(step)} failed: ${error}.${hint}`
  if (/failed to read dockerfile: .*no such file/.test(error)) {
    return `There is no file ${dockerfile} in the build context.`
  }
  const frontend = /^resolve image config for (\S+)/.exec(step)?.[1]
  if (frontend) {
    return `The line '# syntax=' makes the engine fetch ${frontend} from its registry, and that failed: ${error}. Remove the line: the engine's own Dockerfile format is used then.`
  }
  const image = /^\[internal\] load metadata for (\S+)/.exec(step)?.[1]
  if (image) return `Image ${image} could not be fetched: ${error}.`
  return step ? `${nameOf(step)} failed: ${error}.` : `${upper(error)}.`
}

const upper = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
