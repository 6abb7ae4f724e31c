// Turns a failed build into a sentence for a person. Pure.
import { registryOf } from '@berth/shared'
import { BUILDS } from '../../../limits/docker.ts'
import type { MemoryCause } from '../../memory.ts'
import { type EngineError, saysDiskFull } from '../engine-error.ts'
import { caseOf, registryAdvice } from '../registries.ts'
import type { BuildOutcome } from './follower.ts'
import type { BuildGrants } from './grants.ts'

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
  grants: BuildGrants
  /** Of a fork, whose builds are granted nothing. */
  isFork: boolean
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
  return new BuildError('build_failed', explain(error, facts, context), facts)
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

/** What the step mounts and the build was not granted. */
function mountHint(step: string, { grants, isFork }: BuildContext): string {
  const missing: string[] = []
  for (const [mount] of step.matchAll(/--mount=\S*type=(?:secret|ssh)\b\S*/g)) {
    const [, id, target] =
      /[=,](?:id|source)=([^,\s]+)/.exec(mount) ??
      /[=,](?:target|dst)=(\S*\/)?([^,\s/]+)/.exec(mount) ??
      []
    const name = id && !id.endsWith('/') ? id : target
    if (/type=ssh\b/.test(mount)) {
      if (!grants.sshKey) missing.push("The build has no SSH key: add 'ssh: deploy' to 'build'.")
    } else if (name !== undefined && !grants.secrets.has(name)) {
      missing.push(`The build has no secret ${name}: name the custom variable in 'build.secrets'.`)
    }
  }
  if (missing.length === 0) return ''
  return isFork
    ? " Builds of a fork's code get no secrets and no SSH key."
    : ` ${missing.join(' ')}`
}

function explain(raw: string, { step = '', exitCode }: BuildFacts, context: BuildContext): string {
  const error = clean(raw)
  const hint = mountHint(step, context)
  if (exitCode !== undefined) return `${nameOf(step)} exited with ${exitCode}.${hint}`
  if (hint) return `${nameOf(step)} failed: ${error}.${hint}`
  if (/failed to read dockerfile: .*no such file/.test(error)) {
    return `There is no file ${context.dockerfile} in the build context.`
  }
  const advice = (reference: string): string =>
    registryAdvice(raw, caseOf(context.grants.registries, reference, context.isFork))
  const frontend = /^resolve image config for (\S+)/.exec(step)?.[1]
  if (frontend) {
    return `The line '# syntax=' makes the engine fetch ${frontend} from its registry, and that failed: ${error}. Remove the line: the engine's own Dockerfile format is used then.`
  }
  const image = /^\[internal\] load metadata for (\S+)/.exec(step)?.[1]
  if (image) return baseImageMissing(image, error, advice(image))
  return step ? `${nameOf(step)} failed: ${error}.` : `${upper(error)}.`
}

/** For an image that this server lacks and its registry did not give. */
export const baseImageMissing = (reference: string, reason: string, advice: string): string =>
  `Base image ${reference} is not on this server and could not be fetched from ${registryOf(reference)}: ${reason}.${advice}`

const upper = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
