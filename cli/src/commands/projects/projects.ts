// berth projects: list, show, create.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { RECIPES, type Recipe } from '@berth/shared'
import { Project, ProjectCreate, ProjectDetail, Server } from '@berth/shared/api'
import { FILE_NAME, readServiceFile } from '@berth/shared/service-file'
import { findRoot, normalizeRepoUrl, readRemotes } from '../../client/repository.ts'
import { findProject, matchNamed } from '../../client/resolve.ts'
import { type Context, compose, flagList, flagText, type Invocation } from '../../context.ts'
import { chooseDraft, detect } from '../../detect/detect.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { readLook, readSmall } from '../config/folder.ts'

async function performProjectsList(_: unknown, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const { items, raw } = await api.list('/api/projects', Project, { query: { per_page: 100 } })
  await context.screen.printList({
    rows: items,
    raw,
    header: ['PROJECT', 'DOMAIN', 'ENVIRONMENTS', 'SERVERS', 'REPOSITORY'],
    human: (project) => [
      { text: project.name, style: 'bold' },
      project.domain,
      String(project.environment_count),
      project.servers.map((server) => server.name).join(', '),
      project.repo_url,
    ],
    plain: (project) => [
      String(project.id),
      project.name,
      project.domain,
      String(project.environment_count),
      project.servers.map((server) => server.name).join(','),
      project.repo_url,
    ],
    empty:
      'No projects yet. Make one with: berth project create NAME --repo URL --domain D --server S',
  })
  return EXIT.done
}

export const projectsList = compose(() => undefined, performProjectsList)

/** `projects show PROJECT`; without an argument, the project of -p or the directory. */
const parseProjectsShow = ({ args, globals }: Invocation): { project: string | undefined } => ({
  project: args[0] ?? globals.project,
})

async function performProjectsShow(
  options: { project: string | undefined },
  context: Context,
): Promise<ExitCode> {
  const api = await context.connect()
  const globals = { ...context.globals, project: options.project }
  const { id } = await findProject(api, { ...context, globals }, 'read')
  const { value: project, raw } = await api.get(`/api/projects/${id}`, ProjectDetail)
  await context.screen.printFields(raw, [
    ['id', String(project.id)],
    ['name', { text: project.name, style: 'bold' }],
    ['status', project.status],
    ['repository', project.repo_url],
    ['domain', project.domain],
    ['environments', `${project.environment_count} of ${project.environment_limit}`],
    ['servers', project.servers.map((server) => `${server.name} (${server.hostname})`).join(', ')],
    ['recipe', project.default_recipe],
    ['branch', project.default_branch],
    ['deploys pushes', project.auto_deploy ? 'yes' : 'no'],
    ['owner', project.owner.name],
    ['deploy key', project.repo_public_key],
    ['created', project.created_at],
  ])
  return EXIT.done
}

export const projectsShow = compose(parseProjectsShow, performProjectsShow)

interface ProjectCreateOptions {
  servers: string[]
  body: Omit<ProjectCreate, 'server_ids'>
}

function parseProjectCreate({ args, flags }: Invocation): ProjectCreateOptions {
  const recipe = flagText(flags, 'recipe')
  const checked = ProjectCreate.omit({ server_ids: true }).safeParse({
    name: args[0],
    repo_url: flagText(flags, 'repo'),
    domain: flagText(flags, 'domain'),
    ...(recipe === undefined ? {} : { default_recipe: recipe }),
  })
  if (!checked.success) throw invalidInput(checked.error.issues)
  return { servers: flagList(flags, 'server'), body: checked.data }
}

const FLAGS: Record<string, string> = {
  name: 'NAME',
  identifier: 'NAME',
  repo_url: '--repo',
  domain: '--domain',
  default_recipe: '--recipe',
  recipe: '--recipe',
  branch: '--branch',
  hostname: '--hostname',
}

/** Every field that violates the contract, by the flag that set it. */
export function invalidInput(issues: readonly { path: PropertyKey[]; message: string }[]): Error {
  const said = issues.map(({ path, message }) => {
    const field = String(path[0] ?? '')
    return `${FLAGS[field] ?? field} ${message}`
  })
  return usage(said.join('; '))
}

async function performProjectCreate(
  options: ProjectCreateOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { items: servers } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
  const chosen = options.servers.map((word) => matchNamed(word, servers, 'server', 'change'))
  const body = { ...options.body, server_ids: chosen.map((server) => server.id) }
  const fitting = body.default_recipe ? null : await recipeHere(body.repo_url, chosen[0], context)
  if (fitting) {
    body.default_recipe = fitting.recipe
    await screen.note(cleanText(`Recipe ${fitting.recipe}: ${fitting.why} (--recipe changes it)`))
  }
  const { value: project, raw } = await api.post('/api/projects', ProjectDetail, {
    body,
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  await screen.note(
    `${screen.err.paint('green', '✓')} Project ${cleanText(project.name)} (id ${project.id})`,
  )
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) {
    await screen.print(
      [String(project.id), project.name, project.repo_public_key].map(cleanText).join('\t'),
    )
  } else for (const line of nextSteps(project, raw)) await screen.print(line)
  return EXIT.done
}

/** The recipe of the checkout in this folder, if the project is made for its repository; null: nothing is known. */
async function recipeHere(
  repo: string,
  server: Server | undefined,
  { io }: Context,
): Promise<{ recipe: Recipe; why: string } | null> {
  const remotes = await readRemotes(io.cwd)
  if (!remotes.some((one) => normalizeRepoUrl(one) === normalizeRepoUrl(repo))) return null
  const root = (await findRoot(io.cwd)) ?? io.cwd
  const supported = server?.recipes.length ? server.recipes : undefined
  const text = await readSmall(join(root, FILE_NAME))
  if (text !== null) {
    const { file } = readServiceFile(text)
    const own = RECIPES.filter((recipe) => file?.[recipe])
    const recipe = own.find((one) => supported?.includes(one) ?? true) ?? own[0]
    return recipe === undefined ? null : { recipe, why: `${FILE_NAME} here has it` }
  }
  const detection = detect(await readLook(root))
  const choice = chooseDraft(detection, undefined, supported)
  if ('missing' in choice || choice.draft.problem !== null) return null
  return { recipe: choice.draft.recipe, why: `fits ${detection.title}` }
}

/** What the user must do elsewhere. Only this answer contains the webhook's secret. */
function nextSteps(project: ProjectDetail, raw: unknown): string[] {
  const { webhook_secret: secret } = raw as Record<string, unknown>
  const steps = [
    [
      'Add this deploy key (read-only) to the repository:',
      `   ${cleanText(project.repo_public_key)}`,
    ],
  ]
  if (typeof secret === 'string') {
    steps.push([
      'Add this webhook, JSON, events: pushes and pull requests',
      `   URL     ${cleanText(project.webhook.url)}`,
      `   Secret  ${cleanText(secret)}            (shown once)`,
    ])
  }
  const hosts = project.servers.map((server) => `${server.name} (${server.hostname})`).join(', ')
  steps.push([cleanText(`Point *.${project.domain} at ${hosts}`)])
  steps.push([
    cleanText(`Make an environment: berth env create staging -p ${project.name} --branch BRANCH`),
  ])
  return steps.flatMap(([first, ...rest], i) => [
    `  ${i + 1}. ${first}`,
    ...rest.map((l) => `  ${l}`),
  ])
}

export const projectCreate = compose(parseProjectCreate, performProjectCreate)
