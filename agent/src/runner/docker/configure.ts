// Before the build: checks that this server can deploy (`admit`) and writes the variable files (`variables`). First
// removes what earlier attempts left behind when their runner died.

import { chmodSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DockerService, isDatabaseImage } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { replaceFile } from '../../machine/atomic-files.ts'
import { readSigningKey, type SigningKey } from '../../machine/docker/build/ssh-agent.ts'
import { type EngineFacts, engineFacts, engineFactsAgain } from '../../machine/docker/engine.ts'
import { EngineError } from '../../machine/docker/engine-error.ts'
import { ENGINE_ADVICE, refuseEngine } from '../../machine/docker/engine-kind.ts'
import { writeSecretFile } from '../../machine/files.ts'
import { locateProgram } from '../../machine/process/programs.ts'
import { serverName } from '../../machine/server-settings.ts'
import { fingerprint } from '../../machine/spec-key.ts'
import { guardServer } from '../../resources/firewall.ts'
import { type Attempt, need } from '../attempt.ts'
import { missing, StepFailure } from '../failure.ts'
import { resolveBuild } from '../plan/build-values.ts'
import { renderEnvFile, renderShellFile, type Values } from '../plan/variable-files.ts'
import { resolveVariables, weakerAdditions } from '../plan/variables.ts'
import { addressesOf, requireProxy } from '../routing.ts'
import { resolveCustom } from '../steps/configure.ts'
import { checkDiskSpace } from '../steps/disk-space.ts'
import { beginFetch } from '../steps/fetch.ts'
import { remembered } from '../warm-up.ts'
import { buildText, LAUNCH_PROGRAM, type VariableFiles } from './container-spec.ts'
import { dockerOf, dockerSectionOf, isUntrusted, lastDocker } from './docker-context.ts'
import { recoverDockerLeftovers } from './leftovers.ts'

export async function checkEngine(attempt: Attempt): Promise<EngineFacts> {
  const unusable = (why: string, advice = ENGINE_ADVICE.docker): StepFailure =>
    new StepFailure(
      FailureCode.DOCKER_UNAVAILABLE,
      `Server ${serverName(attempt.settings)} has no working Docker engine: ${why}. ${advice}`,
    )
  try {
    const { engine } = dockerOf(attempt)
    const known = remembered.engine
    const facts = await (known ? engineFactsAgain(engine, known) : engineFacts(engine))
    const refusal = refuseEngine(facts)
    if (refusal) throw unusable(refusal, ENGINE_ADVICE[facts.kind])
    return facts
  } catch (error) {
    throw error instanceof EngineError ? unusable(error.message) : error
  }
}

export async function admitDocker(attempt: Attempt): Promise<void> {
  if (attempt.spec.kind.case !== 'deploy') {
    throw new StepFailure(
      FailureCode.AGENT_OUTDATED,
      `The agent of server ${serverName(attempt.settings)} does not know this kind of task. Update the agent.`,
    )
  }
  for (const name of ['git']) {
    if (!locateProgram(name)) throw missing(attempt, 'docker', `${name} is not installed.`)
  }
  const fetching = beginFetch(attempt)
  try {
    await admitServer(attempt)
  } catch (error) {
    await fetching.stop()
    throw error
  }
}

async function admitServer(attempt: Attempt): Promise<void> {
  // this version most likely routes what the previous one routed; the rest is checked after the file is read
  const routed = lastDocker(attempt)?.routes.map(({ service }) => service) ?? []
  const proxy = requireProxy(attempt, [...new Set(routed)])
  proxy.catch(() => undefined) // thrown below, after problems with the engine
  const { version, dataRoot } = await checkEngine(attempt)
  dockerOf(attempt).dataRoot = dataRoot
  await proxy
  await guardServer(attempt.settings, attempt.ledger) // a build runs code too
  await recoverDockerLeftovers(attempt)
  await checkDiskSpace(attempt, { dataRoot })
  attempt.output.say(`Server ${serverName(attempt.settings)}: docker recipe, engine ${version}.`)
}

/** Mounted into every container of this server; the file changes only with its text. */
function ensureLauncher(attempt: Attempt): string {
  const folder = join(attempt.settings.stateDir, 'bin')
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const file = join(folder, 'launch.sh')
  if (existsSync(file) && readFileSync(file, 'utf8') === LAUNCH_PROGRAM) return file
  replaceFile(file, LAUNCH_PROGRAM, 0o444)
  chmodSync(file, 0o444)
  return file
}

/** By service, since each has its own `env`. */
export function variableFiles(attempt: Attempt, service: string): VariableFiles {
  const { paths, settings, assignment } = attempt
  const stem = join(paths.variables, `${assignment.taskId}-${service}`)
  return {
    launch: join(settings.stateDir, 'bin', 'launch.sh'),
    shell: `${stem}.sh`,
    env: `${stem}.env`,
  }
}

/** Hints about values that a service lacks, or gets without need. */
function adviseOnVariables(
  { output }: Attempt,
  { name, variables, image }: DockerService,
  custom: ReadonlySet<string>,
): void {
  const absent = (variables ?? []).filter((key) => !custom.has(key))
  if (absent.length > 0) {
    output.say(`Warning: ${name} lists variables that are not set: ${absent.join(', ')}.`)
  }
  if (variables !== null || image === null || custom.size === 0 || !isDatabaseImage(image)) return
  output.say(
    `Hint: ${name} is a database and gets all ${custom.size} custom variables. Name those it needs in 'variables'.`,
  )
}

function readyKey(attempt: Attempt, service: string): SigningKey {
  try {
    return readSigningKey(attempt.secrets.deployKey)
  } catch (error) {
    const why = `the project's deploy key cannot be used: ${(error as Error).message}.`
    throw new StepFailure(FailureCode.BUILD_FAILED, `${service}: ${why}`)
  }
}

/** Before the first build, so that a missing value costs no time. */
function readyBuilds(attempt: Attempt, custom: Values): void {
  const isFork = isUntrusted(attempt)
  const addresses = addressesOf(attempt)
  for (const service of dockerSectionOf(attempt).services) {
    if (!service.build) continue
    const { name } = service
    const system = attempt.spec.systemVariables
    const values = resolveBuild(service.build, { custom, system, addresses, isFork })
    if (values.missing.length > 0) throw missingValues(name, values.missing)
    if (values.withheld.length > 0) {
      const message = `${name} is built without ${values.withheld.join(', ')}: builds of a fork's code get no values.`
      attempt.output.say(`Warning: ${message}`)
      attempt.report.warning('fork_without_values', message, 'variables')
    }
    const sshKey = values.wantsKey ? readyKey(attempt, name) : undefined
    const { args, secrets } = values
    const key = sshKey?.blob.toString('base64') ?? ''
    const text = buildText(service, { args, secrets, key })
    const hidden = JSON.stringify(['values', [...secrets], key])
    dockerOf(attempt).builds.set(name, {
      args,
      secrets,
      sshKey,
      cacheKey: secrets.size > 0 || sshKey ? fingerprint(attempt.settings, hidden) : undefined,
      mark: fingerprint(attempt.settings, text),
    })
  }
}

function missingValues(service: string, keys: string[]): StepFailure {
  const names = keys.join(', ')
  const what = keys.length > 1 ? 'custom variables that are' : 'a custom variable that is'
  const message = `The build of ${service} needs ${what} not set: ${names}. Set it: berth vars set ${keys[0]}`
  return new StepFailure(FailureCode.BUILD_FAILED, message)
}

export async function writeDockerVariables(attempt: Attempt): Promise<void> {
  const docker = dockerOf(attempt)
  const { services } = dockerSectionOf(attempt)
  const { custom: values, plain } = resolveCustom(attempt)
  const resolved = resolveVariables({
    section: {},
    // a fork gets only values that a member set for it, or marked for forks
    custom: values,
    plain,
    autoPorts: new Map(),
    defaultService: undefined,
    system: attempt.spec.systemVariables,
  })
  attempt.results.variables = resolved
  ensureLauncher(attempt)
  const custom = new Set(resolved.customKeys)
  for (const service of services) {
    const { name, env, variables } = service
    const isHidden = (key: string): boolean =>
      variables !== null && custom.has(key) && !variables.includes(key)
    const strong = new Set([...resolved.strong].filter((key) => !isHidden(key)))
    const own = Object.entries(weakerAdditions(env, strong))
    const given = [...resolved.values].filter(([key]) => !isHidden(key))
    const all = [...new Map([...own, ...given])]
    adviseOnVariables(attempt, service, custom)
    const sorted = new Map(all.sort(([a], [b]) => (a < b ? -1 : 1)))
    const files = variableFiles(attempt, name)
    // 0444 in a folder that only root can enter: the engine mounts the files, and the image's user can read them
    writeSecretFile(files.shell, renderShellFile(sorted), undefined, 0o444)
    writeSecretFile(files.env, renderEnvFile(sorted), undefined, 0o444)
    docker.values.set(name, sorted)
  }
  readyBuilds(attempt, values)
  docker.limits = need(attempt, 'limits')
  const count = resolved.customKeys.length
  attempt.output.say(
    `${resolved.values.size} variables (${count} custom) for ${services.length} services; in containers at /run/berth/variables.env.`,
  )
}
