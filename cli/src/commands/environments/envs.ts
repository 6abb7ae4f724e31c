// berth envs: list, show, create. The list keeps the API's order; the caller's rights are read from `may`, never
// derived.
import { randomUUID } from 'node:crypto'
import {
  Environment,
  EnvironmentBasicAuth,
  EnvironmentCreate,
  EnvironmentCreated,
  Server,
} from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findProject, findTarget, matchNamed } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, shortCommit } from '../../terminal/format.ts'
import type { Cell, Style } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'
import { parseWait, type WaitChoice, waitAndReport } from '../deployments/deploy.ts'
import { invalidInput } from '../projects/projects.ts'
import { listPullRequests, waitingText } from '../projects/prs.ts'
import { askSecret, mayAsk } from '../prompt.ts'
import { readVariables } from './vars.ts'

const STATUS: Record<Environment['status'], readonly [string, Style | undefined]> = {
  new: ['○', 'dim'],
  deploying: ['◐', 'cyan'],
  running: ['●', 'green'],
  stopped: ['■', 'dim'],
  degraded: ['!', 'yellow'],
  failed: ['✗', 'red'],
  removing: ['–', 'dim'],
}

function statusCell(environment: Environment): Cell {
  const [mark, style] = STATUS[environment.status]
  return { text: `${mark} ${environment.status}`, ...(style ? { style } : {}) }
}

const typeText = (environment: Environment): string =>
  environment.type === 'manual' ? 'manual' : `PR #${environment.identifier.replace(/^pr-/, '')}`

function deployedText(environment: Environment, now: number): string {
  const { deployed, locked_by: lock } = environment
  if (deployed) return formatAgo(deployed.at, now)
  return lock ? lock.status : 'never'
}

const remarks = (environment: Environment): string =>
  [
    environment.protected ? 'protected' : '',
    environment.variables_changed ? 'variables changed' : '',
  ]
    .filter(Boolean)
    .join(', ')

async function performEnvsList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const project = await findProject(api, context, 'read')
  const path = `/api/projects/${project.id}/environments`
  const { items, raw, headers } = await api.list(path, Environment)
  await screen.printList({
    rows: items,
    raw,
    header: ['', 'ENV', 'TYPE', 'STATUS', 'BRANCH', 'COMMIT', 'DEPLOYED', 'URL', ''],
    human: (environment) => [
      environment.sticky ? '★' : '',
      { text: environment.identifier, style: 'bold' },
      typeText(environment),
      statusCell(environment),
      environment.branch,
      shortCommit(environment.commit_sha),
      deployedText(environment, io.now()),
      environment.url ?? '-',
      remarks(environment),
    ],
    plain: (environment) => [
      String(environment.id),
      environment.identifier,
      environment.type,
      environment.status,
      environment.branch,
      environment.commit_sha ?? '',
      environment.deployed?.at ?? '',
      environment.url ?? '',
    ],
    empty: `No environments in ${project.name} yet: berth env create NAME --branch BRANCH`,
  })
  const used = headers.get('berth-environment-count')
  const limit = headers.get('berth-environment-limit')
  if (screen.human && used && limit) {
    await screen.note(cleanText(`${used} of ${limit} environments used`))
  }
  if (screen.human) await reportWaiting(context, api, project.id)
  return EXIT.done
}

/** Pull requests without an environment. Optional: the list above is complete without them. */
async function reportWaiting(context: Context, api: Api, projectId: number): Promise<void> {
  const { screen } = context
  try {
    const { items } = await listPullRequests(api, projectId)
    for (const one of items) {
      if (one.environment_id !== null || one.waiting_for === null) continue
      const text = `PR #${one.number} ${one.head_branch}, ${waitingText(one)}`
      await screen.note(`${screen.err.paint('yellow', 'Waiting:')} ${cleanText(text)}`)
    }
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    await screen.note(cleanText(`(pull requests could not be read: ${error.message})`))
  }
}

export const envsList = compose(() => undefined, performEnvsList)

async function performEnvsShow(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  const path = `/api/environments/${target.environment.id}`
  const { value: environment, raw } = await api.get(path, Environment)
  const services = environment.services
    .map(({ name, status, replicas, url }) => {
      const count = replicas ? `(${replicas.running} of ${replicas.wanted} replicas)` : ''
      return [name, status, count, url ?? ''].filter((part) => part !== '').join(' ')
    })
    .join(', ')
  await screen.printFields(raw, [
    ['id', String(environment.id)],
    ['environment', { text: `${target.project.name} / ${environment.identifier}`, style: 'bold' }],
    ['title', environment.title],
    ['type', typeText(environment)],
    ['status', screen.human ? statusCell(environment) : environment.status],
    ['reason', environment.status_reason ?? ''],
    ['url', environment.url ?? ''],
    ['branch', environment.branch],
    ['commit', environment.commit_sha ?? ''],
    [
      'deployed',
      screen.human ? deployedText(environment, io.now()) : (environment.deployed?.at ?? ''),
    ],
    ['services', services],
    ['server', `${environment.server.name} (${environment.server.hostname})`],
    ['recipe', `${environment.recipe}${environment.recipe_inherited ? ' (project default)' : ''}`],
    ['owner', environment.owner.name],
    ['protected', environment.protected ? 'yes' : 'no'],
    ['you get mails', environment.watching ? 'when it is degraded' : ''],
    ['deploys pushes', environment.auto_deploy ? 'yes' : 'no'],
    ['deploying', environment.locked_by ? `task ${environment.locked_by.task_id}` : ''],
    ['variables', environment.variables_changed ? 'changed since the last deployment' : ''],
    ['you may', environment.may.join(', ')],
  ])
  return EXIT.done
}

export const envsShow = compose(() => undefined, performEnvsShow)

interface EnvCreateOptions {
  server: string | undefined
  /** The user name that visitors must enter. */
  auth: string | undefined
  authFromStdin: boolean
  varsFrom: string | undefined
  body: EnvironmentCreate
  wait: WaitChoice | null
}

function parseEnvCreate(invocation: Invocation): EnvCreateOptions {
  const { args, flags } = invocation
  const waits = flagOn(flags, 'wait')
  const deploys = flagOn(flags, 'deploy')
  if (waits && !deploys) throw usage('--wait needs --deploy')
  const recipe = flagText(flags, 'recipe')
  const checked = EnvironmentCreate.safeParse({
    identifier: args[0],
    branch: flagText(flags, 'branch'),
    ...(recipe === undefined ? {} : { recipe }),
    ...(flagOn(flags, 'protected') ? { protected: true } : {}),
    ...(flagOn(flags, 'sticky') ? { sticky: true } : {}),
    ...(deploys ? { deploy: true } : {}),
  })
  if (!checked.success) throw invalidInput(checked.error.issues)
  const auth = flagText(flags, 'auth')
  const authFromStdin = flagOn(flags, 'authStdin')
  if (authFromStdin && auth === undefined) throw usage('--auth-stdin needs --auth USER')
  return {
    server: flagText(flags, 'server'),
    auth,
    authFromStdin,
    varsFrom: flagText(flags, 'varsFrom'),
    body: checked.data,
    wait: parseWait(invocation, waits),
  }
}

/** The password of the environment: typed without echo, or from stdin; never an argument. */
async function readAuth(options: EnvCreateOptions, context: Context): Promise<object> {
  if (options.auth === undefined) return {}
  const { io } = context
  if (!options.authFromStdin && !mayAsk(context)) {
    throw usage('--auth needs a password', 'add --auth-stdin and give it on stdin')
  }
  const password = options.authFromStdin
    ? (await io.stdin.read(CLIENT.stdinBytes)).replace(/\r?\n$/, '')
    : await askSecret(context, `Password for ${options.auth}: `)
  const own = { mode: 'own', username: options.auth, password }
  const checked = EnvironmentBasicAuth.safeParse(own)
  if (!checked.success) {
    const [issue] = checked.error.issues
    throw usage(`the ${String(issue?.path[0] ?? 'password')} of --auth ${issue?.message}`)
  }
  return { basic_auth: checked.data }
}

async function readInitialVariables(file: string | undefined): Promise<object> {
  if (file === undefined) return {}
  return { variables: Object.fromEntries(await readVariables(file)) }
}

async function performEnvCreate(options: EnvCreateOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const extras = {
    ...(await readInitialVariables(options.varsFrom)),
    ...(await readAuth(options, context)),
  }
  const api = await context.connect()
  const project = await findProject(api, context, 'change')
  const body = { ...options.body, ...extras }
  if (options.server !== undefined) {
    const { items } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
    body.server_id = matchNamed(options.server, items, 'server', 'change').id
  }
  const { value: environment, raw } = await api.post(
    `/api/projects/${project.id}/environments`,
    EnvironmentCreated,
    { body, idempotencyKey: randomUUID(), expect: 201 },
  )
  const target = { project, environment }
  const mark = screen.err.paint('green', '✓')
  const name = cleanText(`${project.name} / ${environment.identifier}`)
  await screen.note(
    `${mark} Environment ${name} (id ${environment.id}) at ${cleanText(environment.domain)}`,
  )
  if (body.deploy && !environment.task) {
    throw new CliError(
      EXIT.error,
      'the environment was created, but the server named no deployment',
      `berth deploy -p ${project.name} -e ${environment.identifier} --wait`,
    )
  }
  if (environment.task && options.wait) {
    return waitAndReport(context, api, target, environment.task, options.wait)
  }
  if (environment.task) {
    await screen.note(`Deployment: task ${environment.task.id}, ${environment.task.status}`)
  }
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) {
    const task = environment.task ? String(environment.task.id) : '-'
    const cells = [String(environment.id), environment.identifier, environment.domain, task]
    await screen.print(cells.map(cleanText).join('\t'))
  }
  return EXIT.done
}

export const envCreate = compose(parseEnvCreate, performEnvCreate)
