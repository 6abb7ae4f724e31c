// What `berth up` makes on the control plane: the project, access to its repository, the environment, the deployment.
import { randomUUID } from 'node:crypto'
import {
  type Environment,
  EnvironmentCreated,
  ProjectCreated,
  type ProjectDetail,
  RepositoryCheck,
  Task,
} from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { connectForge, forgePages } from '../../client/forge.ts'
import { ApiFailure } from '../../client/problem.ts'
import { normalizeRepoUrl } from '../../client/repository.ts'
import type { Context } from '../../context.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { explainRefusal, findTask, flagsOf } from '../deployments/deploy.ts'
import { mayAsk } from '../prompt.ts'
import type { Plan } from './plan.ts'
import type { Session } from './sign-in.ts'

interface Made {
  project: ProjectDetail
  /** Of the webhook; shown once, when the project is made. */
  secret: string | null
}

const done = async ({ screen }: Context, text: string): Promise<void> =>
  screen.note(`${screen.err.paint('green', '✓')} ${cleanText(text)}`)

export async function ensureProject(plan: Plan, session: Session, context: Context): Promise<Made> {
  const { project, newProject } = plan
  if (project) return { project, secret: null }
  if (!newProject) throw new CliError(EXIT.error, 'the plan has no project')
  const api = session.api as Api
  const { name, domain, server, organizationId } = newProject
  const { value } = await api.post('/api/projects', ProjectCreated, {
    body: {
      ...{ name, domain, repo_url: plan.repo, server_ids: [server.id] },
      ...{ default_recipe: plan.recipe, default_branch: plan.branch },
    },
    headers: { 'x-service-organization': String(organizationId) },
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  await done(context, `Project ${value.name} (id ${value.id}) at ${domain}`)
  return { project: value, secret: value.webhook_secret }
}

async function check(api: Api, project: ProjectDetail): Promise<RepositoryCheck> {
  const path = `/api/projects/${project.id}/repository_check`
  const options = { idempotencyKey: randomUUID(), expect: 200 }
  return (await api.post(path, RepositoryCheck, options)).value
}

/** A repository of the project: 'github.com' and 'acme/shop'. */
function placeOf(project: ProjectDetail): { host: string; path: string } {
  const [host = '', ...rest] = normalizeRepoUrl(project.repo_url).split('/')
  return { host, path: rest.join('/') }
}

async function sayHooks(made: Made, context: Context): Promise<void> {
  const { project, secret } = made
  const { host, path } = placeOf(project)
  const { screen } = context
  const say = (text: string): Promise<void> => screen.note(cleanText(text))
  await say(
    'For deployments on each push and previews of pull requests, add this webhook (JSON, pushes and pull requests):',
  )
  await say(`  At      ${forgePages(host, path)?.hooks ?? `the settings of ${project.repo_url}`}`)
  await say(`  URL     ${project.webhook.url}`)
  // the output of a CI job is kept, and many people read it
  if (secret !== null && context.io.stderr.isTTY) await say(`  Secret  ${secret}   (shown once)`)
  else await say(`  Secret  berth project webhook ${project.name} --rotate-secret makes one`)
  await say(`  Or let Berth install both: berth project connect -p ${project.name}`)
}

/** The key is there, or the forge adds it, or a person does. */
export async function ensureReadable(
  plan: Plan,
  made: Made,
  session: Session,
  context: Context,
): Promise<void> {
  const { project } = made
  const api = session.api as Api
  const may = session.me?.organizations.find(({ id }) => id === project.organization_id)
  const isSure = plan.project !== null && project.repository.reachable === true
  // only administrators may look; a deployment says by itself that it cannot read
  if (isSure || !may?.permissions.includes('project:write')) return
  const { host, path } = placeOf(project)
  const forge = await connectForge(api, project, host)
  if (forge) {
    const failed = forge.checks.filter(({ status }) => status === 'failed')
    if (failed.length === 0) await done(context, `Deploy key and webhook are installed at ${host}`)
    for (const one of failed) {
      const permission = one.permission === null ? '' : ` (permission: ${one.permission})`
      await context.screen.warn(`${one.name}: ${one.message}${permission}`)
    }
  }
  let found = await check(api, project)
  while (!found.reachable) found = await waitForKey(found, made, api, context, { host, path })
  if (!forge && plan.project === null) await sayHooks(made, context)
}

async function waitForKey(
  found: RepositoryCheck,
  made: Made,
  api: Api,
  context: Context,
  { host, path }: { host: string; path: string },
): Promise<RepositoryCheck> {
  const { project } = made
  const { screen, io } = context
  const say = (text: string): Promise<void> => screen.say(cleanText(text))
  const why = found.error?.message ?? 'the git server gave no reason'
  await say(`${project.repo_url} cannot be read yet: ${why}`)
  await say('Add this deploy key (read-only):')
  await say(`  At   ${forgePages(host, path)?.keys ?? `the settings of the repository at ${host}`}`)
  await say(`  Key  ${project.repo_public_key}`)
  if (!mayAsk(context)) {
    throw new CliError(
      EXIT.refused,
      'the repository cannot be read yet; the project was made',
      'add the deploy key, then run berth up again: it goes on from here',
    )
  }
  await io.stderr.write(
    'Press Enter when the key is there (Ctrl-C stops; berth up goes on later): ',
  )
  if ((await io.stdin.readLine(64)) === null) {
    throw new CliError(EXIT.refused, 'the repository cannot be read yet', 'run berth up again')
  }
  return check(api, project)
}

/** Starts a deployment, or finds the one that a push has just started. */
async function startOrJoin(
  api: Api,
  project: ProjectDetail,
  environment: Environment,
  context: Context,
): Promise<Task> {
  const target = { project, environment }
  try {
    const { value } = await api.post(`/api/environments/${environment.id}/tasks`, Task, {
      body: {},
      idempotencyKey: randomUUID(),
      madeAt: '/api/tasks',
      expect: 201,
    })
    return value
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    if (error.code === 'deployment_in_progress') {
      await context.screen.note('A deployment is running already; this follows it.')
      return (await findTask(api, target)).task
    }
    const words = {
      noun: 'a deployment',
      verb: 'deploy it',
      list: `berth tasks ${flagsOf(target)}`,
    }
    throw explainRefusal(error, target, context.io.now(), words)
  }
}

export async function ensureEnvironment(
  plan: Plan,
  project: ProjectDetail,
  session: Session,
  context: Context,
): Promise<{ environment: Environment; task: Task; isNew: boolean }> {
  const api = session.api as Api
  const { environment, identifier, branch, recipe, variables } = plan
  if (environment) {
    const isNew = environment.deployed === null
    return { environment, task: await startOrJoin(api, project, environment, context), isNew }
  }
  const path = `/api/projects/${project.id}/environments`
  const { value } = await api.post(path, EnvironmentCreated, {
    body: {
      ...{ identifier, branch, deploy: true },
      ...(recipe === project.default_recipe ? {} : { recipe }),
      ...(Object.keys(variables).length > 0 ? { variables } : {}),
    },
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  await done(context, `Environment ${value.identifier} (id ${value.id}) at ${value.domain}`)
  const task = value.task ?? (await startOrJoin(api, project, value, context))
  return { environment: value, task, isNew: true }
}
