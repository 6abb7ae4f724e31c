// Sends one change of variables, of an environment or of a level of its project, and applies it with --deploy. The hint
// comes from the server.
import { randomUUID } from 'node:crypto'
import {
  Environment,
  PROJECT_LEVELS,
  type Project,
  type ProjectLevel,
  ProjectVariablesPatched,
  VariablesPatched,
} from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findProject, findTarget, type Target, targetName } from '../../client/resolve.ts'
import type { Finished } from '../../client/wait.ts'
import { type Context, flagOn, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import {
  finishStart,
  flagsOf,
  parseWait,
  startTask,
  type WaitChoice,
} from '../deployments/deploy.ts'

export const LEVEL_WORDS: Record<ProjectLevel, string> = {
  project: 'all environments',
  previews: 'all previews',
  manual: 'all manual environments',
}

export const environmentPath = ({ environment }: Pick<Target, 'environment'>): string =>
  `/api/environments/${environment.id}/variables`

export const projectPath = ({ id }: Pick<Project, 'id'>): string => `/api/projects/${id}/variables`

/** Undefined: of one environment. */
export function parseLevel({ flags, globals }: Invocation): ProjectLevel | undefined {
  const asked = flagText(flags, 'for')
  const level = PROJECT_LEVELS.find((one) => one === asked)
  if (level !== undefined && globals.env !== undefined) {
    throw usage(`--for ${level} is about ${LEVEL_WORDS[level]}`, 'leave out -e, or --for')
  }
  return level
}

export interface ChangeChoice {
  level: ProjectLevel | undefined
  /** Deploys what the change reaches. */
  deploys: boolean
  wait: WaitChoice | null
}

export function parseChange(invocation: Invocation): ChangeChoice {
  const { flags } = invocation
  const deploys = flagOn(flags, 'deploy')
  const waits = flagOn(flags, 'wait')
  if (waits && !deploys) throw usage('--wait needs --deploy')
  return { level: parseLevel(invocation), deploys, wait: parseWait(invocation, waits) }
}

export interface ChangeBody {
  set?: Record<string, string>
  unset?: string[]
  generate?: Record<string, { length?: number; replace?: true }>
  forks?: Record<string, boolean>
}

export async function sendChange(
  body: ChangeBody,
  choice: ChangeChoice,
  context: Context,
): Promise<ExitCode> {
  const api = await context.connect()
  return choice.level === undefined
    ? changeEnvironment(api, body, choice, context)
    : changeLevel(api, choice.level, body, choice, context)
}

const request = (body: object) => ({ body, idempotencyKey: randomUUID(), expect: 200 })

async function changeEnvironment(
  api: Api,
  body: ChangeBody,
  choice: ChangeChoice,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const target = await findTarget(api, context, 'change')
  const path = environmentPath(target)
  const { value, raw } = await api.change('PATCH', path, VariablesPatched, request(body))
  await report(value, targetName(target), context)
  if (choice.deploys && value.variables_changed) return deployAll(api, [target], choice, context)
  if (screen.json) await screen.printJson(raw)
  if (choice.deploys) await screen.note('Nothing to deploy: the running version has these values.')
  else await hint(value, `berth deploy ${flagsOf(target)}`, context)
  return EXIT.done
}

async function changeLevel(
  api: Api,
  level: ProjectLevel,
  body: ChangeBody,
  choice: ChangeChoice,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const project = await findProject(api, context, 'change')
  const { value, raw } = await api.change(
    'PATCH',
    projectPath(project),
    ProjectVariablesPatched,
    request({ ...body, level }),
  )
  await report(value, `${LEVEL_WORDS[level]} of ${project.name}`, context)
  const on = value.forks.filter((key) => body.forks?.[key])
  const off = value.forks.filter((key) => !body.forks?.[key])
  await say('Forks get', on, '', context)
  await say('Forks no longer get', off, '', context)
  if (choice.deploys && value.environments.length > 0) {
    const { items } = await api.list(`/api/projects/${project.id}/environments`, Environment)
    const changed = new Set(value.environments.map(({ id }) => id))
    const targets = items
      .filter(({ id }) => changed.has(id))
      .map((environment) => ({ project, environment }))
    return deployAll(api, targets, choice, context)
  }
  if (screen.json) await screen.printJson(raw)
  if (choice.deploys) await screen.note('Nothing to deploy: no environment gets another value.')
  const names = value.environments.map(({ identifier }) => identifier)
  const next = names.map((name) => `berth deploy -p ${project.name} -e ${name}`)[0] ?? ''
  if (!choice.deploys) await hint(value, next, context, names)
  return EXIT.done
}

/** Starts all, then waits for one after the other; a failure of one does not hide the others. */
async function deployAll(
  api: Api,
  targets: readonly Target[],
  { wait }: ChangeChoice,
  context: Context,
): Promise<ExitCode> {
  const words = { noun: 'a deployment', verb: 'deploy it' }
  const started: [Target, Finished][] = []
  let refused: CliError | undefined
  for (const target of targets) {
    try {
      started.push([target, await startTask(api, target, {}, context.io.now(), words)])
    } catch (error) {
      if (!(error instanceof CliError) || error.exitCode === EXIT.interrupted) throw error
      if (targets.length === 1) throw error
      refused ??= error
      await context.screen.say(cleanText(`${targetName(target)}: ${error.message}`))
    }
  }
  let code: ExitCode = EXIT.done
  for (const [target, one] of started) {
    const ended = await finishStart(context, api, target, one, wait)
    if (code === EXIT.done) code = ended
  }
  return refused ? refused.exitCode : code
}

async function say(verb: string, keys: string[], more: string, { screen }: Context): Promise<void> {
  if (keys.length === 0) return
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`${verb} ${keys.join(', ')}${more}`)}`)
}

async function report(value: VariablesPatched, where: string, context: Context): Promise<void> {
  await say('Set', value.set, ` on ${where}`, context)
  await say('Unset', value.unset, ` on ${where}`, context)
  await say('Unchanged', value.unchanged, '', context)
  if (value.missing.length > 0) {
    await context.screen.note(cleanText(`  ${value.missing.join(', ')} was not set`))
  }
}

async function hint(
  value: VariablesPatched,
  next: string,
  { screen }: Context,
  names: readonly string[] = [],
): Promise<void> {
  if (!value.variables_changed || value.hint === null) return
  const mark = screen.err.paint('yellow', '!')
  const where = names.length > 0 ? ` in ${names.join(', ')}` : ''
  await screen.say(`${mark} ${cleanText(`${value.hint}${where}. Apply with: ${next}`)}`)
}
