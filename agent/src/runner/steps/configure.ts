// Phase configure: the service file is read and judged (`read-config`), ports are chosen (`ports`), the variable
// files are written (`variables`). A problem is told with its place in the file; nothing of the running version is
// touched.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { SERVICE_FILE, shortRef } from '@berth/shared'
import {
  type EnvironmentFacts,
  FILE_NAME,
  formatProblems,
  isReservedVariable,
  type ManualSection,
  MISTAKEN_NAMES,
  missingFileMessage,
  type Problem,
  readServiceFile,
  routes,
  type ServiceFile,
  sectionProblem,
  VARIABLE_KEY,
} from '@berth/shared/service-file'
import { EnvironmentType, FailureCode, Recipe } from '@berth/shared/wire'
import { PortsExhausted } from '../../journal/ledger.ts'
import { writeSecretFile } from '../../machine/files.ts'
import { findListeners, nameHolder } from '../../machine/process/ports.ts'
import { guardServer } from '../../resources/firewall.ts'
import { type Attempt, accountOf, need } from '../attempt.ts'
import { shareCeiling } from '../ceiling.ts'
import { planDocker } from '../docker/plan.ts'
import { StepFailure } from '../failure.ts'
import { planManual } from '../manual/plan.ts'
import type { Ask } from '../plan/ceilings.ts'
import type { Plan } from '../plan/plan.ts'
import { renderEnvFile, renderShellFile } from '../plan/variable-files.ts'
import { resolveVariables } from '../plan/variables.ts'

const invalid = (message: string): StepFailure =>
  new StepFailure(FailureCode.CONFIG_INVALID, message)

/** The bytes of the file in the commit; a link or a folder of that name is no file. */
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

/** One sentence for the task; the whole list is in the output. */
function summary(problems: Problem[]): string {
  const errors = problems.filter(({ severity }) => severity === 'error')
  const [first] = errors
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return `${first?.file}:${first?.line}:${first?.column} ${first?.message}${more}.`
}

/** As the service file spells it. */
const recipeOf = (attempt: Attempt): 'docker' | 'manual' =>
  attempt.spec.recipe === Recipe.DOCKER ? 'docker' : 'manual'

function judge(attempt: Attempt, source: Buffer): ServiceFile {
  const recipe = recipeOf(attempt)
  const read = readServiceFile(source)
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

function makePlan(attempt: Attempt, { docker, manual }: ServiceFile): Plan {
  const { kind } = attempt.spec
  const asked = { fresh: kind.case === 'deploy' && kind.value.fresh }
  const last = attempt.results.last ?? undefined
  if (recipeOf(attempt) === 'docker' && docker) return planDocker(docker, last, asked)
  if (manual) return planManual(manual, last, asked)
  throw new Error('the file has no section of this recipe')
}

/** Of containers, or of the processes that Berth itself keeps running. */
function asksOf(attempt: Attempt, { docker, manual }: ServiceFile): Ask[] {
  if (recipeOf(attempt) === 'docker') return docker?.services ?? []
  const running = (manual?.services ?? []).flatMap(({ name, run }) => (run ? { ...run, name } : []))
  return running.map(({ name, memoryBytes, cpus }) => ({ name, memoryBytes, cpus }))
}

export async function readConfig(attempt: Attempt): Promise<void> {
  const file = judge(attempt, sourceOf(attempt))
  attempt.results.file = file
  attempt.results.limits = shareCeiling(attempt, asksOf(attempt, file))
  attempt.results.plan = makePlan(attempt, file)
  attempt.report.plan(attempt.results.plan)
}

/** The section that this deployment follows. */
export function sectionOf(attempt: Attempt): ManualSection {
  const { manual } = need(attempt, 'file')
  if (!manual) throw new Error('the file has no manual section')
  return manual
}

export const defaultServiceOf = (attempt: Attempt): string | undefined =>
  routes(need(attempt, 'file'), 'manual', environmentFacts(attempt)).defaultService ?? undefined

export async function choosePorts(attempt: Attempt): Promise<void> {
  const uid = accountOf(attempt)?.uid ?? process.getuid?.()
  const identifier = attempt.spec.environment?.identifier
  const ports = new Map<string, number>()
  holdFixed(attempt)
  for (const { name, target, run } of sectionOf(attempt).services) {
    if (target?.kind === 'port') {
      const unknownAttempts = findListeners(target.port).filter((listener) => listener.uid !== uid)
      if (unknownAttempts.length > 0) {
        throw new StepFailure(
          FailureCode.PORT_IN_USE,
          `Port ${target.port} (service ${name}) is held by ${nameHolder(unknownAttempts)}, which does not belong to ${identifier}.`,
        )
      }
      ports.set(name, target.port)
    }
    if (target?.kind === 'auto') {
      const serving = run === null ? undefined : servingPort(attempt, name)
      const isFree = (port: number): boolean => {
        const listeners = findListeners(port)
        // without `run` the port is held by the application that the environment itself keeps up
        return run === null ? listeners.every((l) => l.uid === uid) : listeners.length === 0
      }
      const count = run === null ? 1 : 2
      const kept = reservePorts(attempt, name, count, isFree, serving)
      ports.set(name, kept.find((port) => port !== serving) as number)
    }
  }
  attempt.results.ports = ports
  for (const [name, port] of ports) attempt.output.say(`${name} answers on port ${port}.`)
  // from here on nobody else answers there
  const guard = await guardServer(attempt.settings, attempt.ledger)
  if (guard?.reason && ports.size > 0) attempt.output.say(`Warning: ${guard.reason}`)
}

/** A port in the file belongs to one environment, also while its service is down and nothing listens there. */
function holdFixed(attempt: Attempt): void {
  const { ledger, assignment, settings } = attempt
  const fixed = sectionOf(attempt).services.flatMap(({ name, target }) =>
    target?.kind === 'port' ? [{ name, port: target.port }] : [],
  )
  const ports = fixed.map(({ port }) => port)
  const taken = ledger.holdPorts(assignment.environmentId, ports)
  if (!taken) return
  const { name } = fixed.find(({ port }) => port === taken.port) ?? {}
  const holder = `${settings.accountPrefix}${taken.environmentId}`
  throw new StepFailure(
    FailureCode.PORT_IN_USE,
    `Port ${taken.port} (service ${name}) is kept for environment ${taken.environmentId} of this server (${holder}). Choose another one, or port: auto.`,
  )
}

/** Ports of the version that runs stay its own. */
export async function releasePorts({ ledger, assignment, settings }: Attempt): Promise<void> {
  ledger.holdPorts(assignment.environmentId, [])
  await guardServer(settings, ledger)
}

function reservePorts(
  attempt: Attempt,
  service: string,
  count: number,
  isFree: (port: number) => boolean,
  serving: number | undefined,
): number[] {
  try {
    const { environmentId } = attempt.assignment
    return attempt.ledger.reservePorts(environmentId, service, count, isFree, serving)
  } catch (error) {
    if (!(error instanceof PortsExhausted)) throw error
    throw new StepFailure(FailureCode.PORT_IN_USE, error.message)
  }
}

function servingPort(attempt: Attempt, service: string): number | undefined {
  const rows = attempt.ledger.listProcesses(attempt.assignment.environmentId)
  return rows.find((row) => row.service === service && row.state === 'serving')?.port
}

export function readCustom(attempt: Attempt): Map<string, string> {
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

export const envFile = (shellFile: string): string => shellFile.replace(/\.sh$/, '.env')

export async function writeVariables(attempt: Attempt): Promise<void> {
  const section = sectionOf(attempt)
  const autoPorts = new Map(
    section.services
      .filter(({ target }) => target?.kind === 'auto')
      .map(({ name }) => [name, need(attempt, 'ports').get(name) as number]),
  )
  const resolved = resolveVariables({
    section: section.env,
    custom: readCustom(attempt),
    autoPorts,
    defaultService: defaultServiceOf(attempt),
    system: attempt.spec.systemVariables,
  })
  const account = accountOf(attempt)
  writeSecretFile(attempt.variablesFile, renderShellFile(resolved.values), account)
  writeSecretFile(envFile(attempt.variablesFile), renderEnvFile(resolved.values), account)
  attempt.results.variables = resolved
  const count = resolved.secretKeys.length
  attempt.output.say(
    `${resolved.values.size} variables (${count} custom) are in ${join('variables', `${attempt.assignment.taskId}.env`)}.`,
  )
}
