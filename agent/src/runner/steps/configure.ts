// Reads and checks the service file (`read-config`). Reports a problem with its position in the file; the running
// version is not touched.
import { createHash } from 'node:crypto'
import { SERVICE_FILE, shortRef } from '@berth/shared'
import {
  type EnvironmentFacts,
  FILE_NAME,
  formatProblems,
  isReservedVariable,
  MISTAKEN_NAMES,
  missingFileMessage,
  type Problem,
  routes,
  type ServiceFile,
  sectionProblem,
  VARIABLE_KEY,
} from '@berth/shared/service-file'
import { EnvironmentType, FailureCode } from '@berth/shared/wire'
import { type Attempt, need } from '../attempt.ts'
import { shareCeiling } from '../ceiling.ts'
import { StepFailure } from '../failure.ts'
import { expandCustom } from '../plan/variables.ts'
import { recipeOf } from '../recipe.ts'
import { addressesOf } from '../routing.ts'
import { readWithProcfile } from './checkout.ts'

const invalid = (message: string): StepFailure =>
  new StepFailure(FailureCode.CONFIG_INVALID, message)

/** The bytes of the file in the commit; a link or a folder with that name does not count. */
function sourceOf(attempt: Attempt): Buffer {
  const { root } = need(attempt, 'tree')
  const entry = root.find(({ path }) => path === FILE_NAME)
  if (!entry) {
    const names = new Set(root.map(({ path }) => path))
    const found = MISTAKEN_NAMES.find((name) => names.has(name))
    const branch = shortRef(attempt.spec.repository?.ref ?? '')
    const commit = need(attempt, 'commit').sha
    throw new StepFailure(
      FailureCode.CONFIG_MISSING,
      missingFileMessage({ branch, commit, ...(found && { found }) }),
    )
  }
  if (entry.mode !== '100644' && entry.mode !== '100755') {
    throw invalid(`${FILE_NAME} is a symbolic link or a submodule; it must be a regular file.`)
  }
  if (entry.size > SERVICE_FILE.bytes) {
    throw invalid(`${FILE_NAME} is larger than ${SERVICE_FILE.bytes / 1_024} KiB.`)
  }
  return need(attempt, 'source')
}

export function environmentFacts(attempt: Attempt): EnvironmentFacts {
  const facts = attempt.spec.environment
  return {
    domain: facts?.host ?? '',
    identifier: facts?.identifier ?? '',
    type: facts?.type === EnvironmentType.PULL_REQUEST ? 'pull_request' : 'manual',
    branch: facts?.branch ?? '',
  }
}

/** One sentence for the task; the output has the whole list. */
function summary(problems: Problem[]): string {
  const errors = problems.filter(({ severity }) => severity === 'error')
  const [first] = errors
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return `${first?.file}:${first?.line}:${first?.column} ${first?.message}${more}.`
}

async function judge(attempt: Attempt, source: Buffer): Promise<ServiceFile> {
  const recipe = recipeOf(attempt).name
  const read = await readWithProcfile(attempt, source)
  const addresses = read.file ? routes(read.file, recipe, environmentFacts(attempt)) : undefined
  const problems = [...read.problems, ...(addresses?.problems ?? [])]
  const notes = problems.slice(0, SERVICE_FILE.problems).map((problem) => ({
    line: problem.line,
    column: problem.column,
    isError: problem.severity === 'error',
    code: problem.code,
    message: attempt.report.text(problem.message),
  }))
  attempt.report.serviceFile(FILE_NAME, createHash('sha256').update(source).digest(), notes)
  if (problems.length > 0) {
    attempt.output.say(formatProblems(source.toString('utf8'), problems, { excerpts: 'first' }))
  }
  for (const problem of problems.filter(({ severity }) => severity === 'warning')) {
    const place = `${problem.file}:${problem.line}:${problem.column}`
    attempt.report.warning(problem.code, `${place} ${problem.message}`, 'read-config')
  }
  if (!read.file || problems.some(({ severity }) => severity === 'error')) {
    throw invalid(summary(problems))
  }
  const identifier = attempt.spec.environment?.identifier ?? ''
  const absent = sectionProblem(read.file, recipe, identifier, false)
  if (absent || !read.file[recipe]) throw invalid(absent ?? '')
  return read.file
}

export async function readConfig(attempt: Attempt): Promise<void> {
  const file = await judge(attempt, sourceOf(attempt))
  attempt.results.file = file
  const { kind } = attempt.spec
  const recipe = recipeOf(attempt)
  const reused = attempt.results.reused !== undefined
  const asked = { fresh: kind.case === 'deploy' && kind.value.fresh, reused }
  attempt.results.limits = shareCeiling(attempt, recipe.asks(file))
  attempt.results.plan = recipe.plan(file, attempt.results.last ?? undefined, asked)
  attempt.report.plan(attempt.results.plan)
}

function readCustom(attempt: Attempt): Map<string, string> {
  const custom = new Map<string, string>()
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for (const { key, value } of attempt.secrets.variables) {
    if (!VARIABLE_KEY.test(key) || isReservedVariable(key)) {
      const message = `The variable ${attempt.report.text(key).slice(0, 128)} cannot be set: the name is reserved or not valid.`
      attempt.output.say(`Warning: ${message}`)
      attempt.report.warning('reserved_key', message, 'variables')
      continue
    }
    let text: string
    try {
      text = decoder.decode(value)
    } catch {
      throw invalid(`The value of ${key} is not UTF-8 text. Store it as base64, for example.`)
    }
    if (text.includes('\0')) throw invalid(`The value of ${key} holds a NUL byte.`)
    custom.set(key, text)
  }
  return custom
}

/** Custom values with the addresses of services in place. Values that changed by it are masked from here on. */
export function resolveCustom(attempt: Attempt): {
  custom: Map<string, string>
  plain: Set<string>
} {
  const custom = readCustom(attempt)
  const addresses = addressesOf(attempt)
  const { values, plain, unknown } = expandCustom(custom, addresses)
  if (unknown.length > 0) throw unknownServices(unknown, [...addresses.keys()])
  const masked = [...values].filter(([key, value]) => !plain.has(key) && value !== custom.get(key))
  attempt.output.addValues(masked.map(([, value]) => Buffer.from(value)))
  return { custom: values, plain }
}

function unknownServices(
  unknown: { key: string; service: string }[],
  known: string[],
): StepFailure {
  const said = unknown.map(
    ({ key, service }) => `The variable ${key} asks for the address of ${service}`,
  )
  const has =
    known.length > 0 ? `Services with an address: ${known.join(', ')}` : 'No service has an address'
  return invalid(
    `${said.join('. ')}, but this version has no such service with an address. ${has}. Correct it: berth vars set ${unknown[0]?.key}`,
  )
}

export const envFile = (shellFile: string): string => shellFile.replace(/\.sh$/, '.env')
