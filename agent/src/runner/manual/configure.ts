// Phase configure of the manual recipe: chooses ports (`ports`) and writes the variable files (`variables`).
import { join } from 'node:path'
import { type ManualSection, routes } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PortsExhausted } from '../../journal/ledger.ts'
import { writeSecretFile } from '../../machine/files.ts'
import { findListeners, nameHolder } from '../../machine/process/ports.ts'
import { guardServer } from '../../resources/firewall.ts'
import { type Attempt, accountOf, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { renderEnvFile, renderShellFile } from '../plan/variable-files.ts'
import { type ResolvedVariables, resolveVariables } from '../plan/variables.ts'
import { envFile, environmentFacts, resolveCustom } from '../steps/configure.ts'

/** The section that this deployment follows. */
export function sectionOf(attempt: Attempt): ManualSection {
  const { manual } = need(attempt, 'file')
  if (!manual) throw new Error('the file has no manual section')
  return manual
}

const defaultServiceOf = (attempt: Attempt): string | undefined =>
  routes(need(attempt, 'file'), 'manual', environmentFacts(attempt)).defaultService ?? undefined

export async function choosePorts(attempt: Attempt): Promise<void> {
  const uid = accountOf(attempt)?.uid ?? process.getuid?.()
  const identifier = attempt.spec.environment?.identifier
  const ports = new Map<string, number>()
  holdFixed(attempt)
  for (const { name, target, run } of sectionOf(attempt).services) {
    if (target?.kind === 'port') {
      const others = findListeners(target.port).filter((listener) => listener.uid !== uid)
      if (others.length > 0) {
        throw new StepFailure(
          FailureCode.PORT_IN_USE,
          `Port ${target.port} (service ${name}) is held by ${nameHolder(others)}, which does not belong to ${identifier}.`,
        )
      }
      ports.set(name, target.port)
    }
    if (target?.kind === 'auto') {
      const serving = run === null ? undefined : servingPort(attempt, name)
      const isFree = (port: number): boolean => {
        const listeners = findListeners(port)
        // without `run`, the application that the environment itself keeps running holds the port
        return run === null ? listeners.every((l) => l.uid === uid) : listeners.length === 0
      }
      const count = run === null ? 1 : 2
      const kept = reservePorts(attempt, name, count, isFree, serving)
      ports.set(name, kept.find((port) => port !== serving) as number)
    }
  }
  attempt.results.ports = ports
  for (const [name, port] of ports) attempt.output.say(`${name} answers on port ${port}.`)
  // from here on no other account can answer there
  const guard = await guardServer(attempt.settings, attempt.ledger)
  if (guard?.reason && ports.size > 0) attempt.output.say(`Warning: ${guard.reason}`)
}

/** A port in the file belongs to one environment, even while its service is down and nothing listens there. */
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

/** Releases ports except those of the running version. */
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

/** Of a service with `variables`. */
export const serviceVariablesFile = ({ variablesFile }: Attempt, service: string): string =>
  variablesFile.replace(/\.sh$/, `-${service}.sh`)

export async function writeVariables(attempt: Attempt): Promise<void> {
  const section = sectionOf(attempt)
  const autoPorts = new Map(
    section.services
      .filter(({ target }) => target?.kind === 'auto')
      .map(({ name }) => [name, need(attempt, 'ports').get(name) as number]),
  )
  const sources = {
    section: section.env,
    ...resolveCustom(attempt),
    autoPorts,
    defaultService: defaultServiceOf(attempt),
    system: attempt.spec.systemVariables,
  }
  const resolved = resolveVariables(sources)
  const account = accountOf(attempt)
  const write = (file: string, { values }: ResolvedVariables): void => {
    writeSecretFile(file, renderShellFile(values), account)
    writeSecretFile(envFile(file), renderEnvFile(values), account)
  }
  write(attempt.variablesFile, resolved)
  attempt.results.variables = resolved
  for (const { name, run } of section.services) {
    if (!run?.variables) continue
    const named = run.variables.filter((key) => sources.custom.has(key))
    const absent = run.variables.filter((key) => !named.includes(key))
    if (absent.length > 0) {
      const list = absent.join(', ')
      attempt.output.say(`Warning: ${name} lists variables that are not set: ${list}.`)
    }
    const custom = new Map([...sources.custom].filter(([key]) => named.includes(key)))
    const own = resolveVariables({ ...sources, custom })
    write(serviceVariablesFile(attempt, name), own)
    attempt.results.serviceVariables ??= new Map()
    attempt.results.serviceVariables.set(name, own)
  }
  const count = resolved.customKeys.length
  attempt.output.say(
    `${resolved.values.size} variables (${count} custom) are in ${join('variables', `${attempt.assignment.taskId}.env`)}.`,
  )
}
