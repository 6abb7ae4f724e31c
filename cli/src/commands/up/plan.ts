// Compares what the checkout says with what the control plane has, and decides what `berth up` makes. Answers that
// cannot be guessed are asked for on a terminal; otherwise all of them are one error.
import { randomBytes } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import type { Recipe } from '@berth/shared'
import { Environment, Project, ProjectCreate, ProjectDetail, Server } from '@berth/shared/api'
import { FILE_NAME } from '@berth/shared/service-file'
import type { Api } from '../../client/api.ts'
import { hasFile, lookAtRemote, type Pushed, uncommitted } from '../../client/checkout.ts'
import { normalizeRepoUrl, readLink } from '../../client/repository.ts'
import { matchEnvironment, matchNamed, matchRemotes } from '../../client/resolve.ts'
import type { Context } from '../../context.ts'
import type { Draft } from '../../detect/app.ts'
import { chooseDraft } from '../../detect/detect.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, usage } from '../../terminal/exit.ts'
import { cleanText, padText } from '../../terminal/text.ts'
import { readVariables } from '../environments/vars.ts'
import { recipeReason } from '../projects/doctor.ts'
import { invalidInput } from '../projects/projects.ts'
import { askSecret, askText, mayAsk } from '../prompt.ts'
import type { Facts } from './facts.ts'
import { domainCandidates, guessServer, type Missing, missingMessage, slugOf } from './guesses.ts'
import { mayCreateProject, type Session, widen } from './sign-in.ts'
import type { UpOptions } from './up-options.ts'

interface Row {
  what: string
  value: string
  why: string
  /** Changes it; null: nothing does. */
  flag: string | null
}

export interface NewProject {
  name: string
  domain: string
  server: Server
  organizationId: number
}

export interface Plan {
  rows: Row[]
  /** What will be made, each a clause. */
  makes: string[]
  reasons: string[]
  facts: Facts
  repo: string
  branch: string
  recipe: Recipe
  /** Files to write; null: .service.yml is there. */
  draft: Draft | null
  /** Files to commit before the push. */
  commits: string[]
  pushes: boolean
  pushed: Pushed | null
  baseUrl: string | null
  project: ProjectDetail | null
  newProject: NewProject | null
  environment: Environment | null
  identifier: string
  variables: Record<string, string>
}

/** Collects what is missing, or asks for it. */
class Answers {
  readonly missing: Missing[] = []
  readonly #context: Context
  constructor(context: Context) {
    this.#context = context
  }

  /** undefined: it is missing. */
  async ask(missing: Missing, question: string): Promise<string | undefined> {
    if (mayAsk(this.#context)) {
      await this.#context.screen.note(cleanText(missing.why))
      const answer = await askText(this.#context, question)
      if (answer !== '') return answer
    }
    this.missing.push(missing)
    return undefined
  }
}

async function findProject(
  api: Api,
  projects: readonly Project[],
  repo: string,
  context: Context,
): Promise<{ project: ProjectDetail | null; name: string | undefined }> {
  const { globals, io } = context
  const named = globals.project || io.env.BERTH_PROJECT || (await readLink(io.cwd))?.project
  const byName = projects.find(({ name, id }) => name === named || `id:${id}` === named)
  const same = matchRemotes([repo], projects)
  if (named === undefined && same.length > 1) {
    const names = same.map(({ name }) => name).join(', ')
    throw usage(`several projects deploy this repository: ${names}`, 'name one with -p PROJECT')
  }
  const found = named === undefined ? same[0] : byName
  if (!found) return { project: null, name: named }
  if (normalizeRepoUrl(found.repo_url) !== normalizeRepoUrl(repo)) {
    throw new CliError(
      EXIT.refused,
      `the project ${found.name} deploys ${found.repo_url}, and this checkout comes from ${repo}`,
      'name another project with -p, or another repository with --repo',
    )
  }
  const { value } = await api.get(`/api/projects/${found.id}`, ProjectDetail)
  return { project: value, name: value.name }
}

async function planServer(
  servers: readonly Server[],
  options: UpOptions,
  answers: Answers,
): Promise<{ server: Server; why: string } | undefined> {
  const usable = servers.filter(
    ({ status }) => !['revoked', 'uninstalled', 'pending'].includes(status),
  )
  if (usable.length === 0) {
    throw new CliError(
      EXIT.refused,
      'no server has joined yet',
      'berth server add NAME --hostname HOST prints the command to run on it',
    )
  }
  const pick = (word: string): Server => matchNamed(word, usable, 'server', 'change')
  const named = options.server === undefined ? undefined : pick(options.server)
  const guess = guessServer(usable, named)
  if ('value' in guess) return { server: guess.value, why: guess.why }
  const answer = await answers.ask(guess, 'Server')
  return answer === undefined ? undefined : { server: pick(answer), why: 'your answer' }
}

const addressesOf = (host: string): Promise<string[]> => {
  const limit = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error('no answer in time')), CLIENT.portProbeMs).unref()
  })
  const found = Promise.race([lookup(host, { all: true }), limit])
  return found.then(
    (all) => all.map(({ address }) => address),
    () => [],
  )
}

/** A guess counts only if names below it lead to the server. */
async function planDomain(
  name: string,
  server: Server,
  projects: readonly Project[],
  options: UpOptions,
  answers: Answers,
): Promise<{ domain: string; why: string } | undefined> {
  if (options.domain !== undefined) return { domain: options.domain, why: 'named by --domain' }
  const candidates = domainCandidates(name, server, projects)
  const own = await addressesOf(server.hostname)
  for (const { value, why, certain } of candidates) {
    const leads =
      certain || (await addressesOf(`berth-check.${value}`)).some((one) => own.includes(one))
    if (leads) return { domain: value, why }
  }
  const where = `*.DOMAIN must lead to ${server.name} (${server.hostname})`
  const answer = await answers.ask({ flag: '--domain DOMAIN', why: where }, 'Domain')
  if (answer === undefined) return undefined
  const checked = ProjectCreate.pick({ domain: true }).safeParse({ domain: answer.toLowerCase() })
  if (!checked.success) throw invalidInput(checked.error.issues)
  return { domain: checked.data.domain, why: 'your answer' }
}

async function planOrganization(session: Session, context: Context, answers: Answers) {
  const { me } = session
  const all = me?.organizations ?? []
  const chosen = me?.current_organization_id ?? (all.length === 1 ? all[0]?.id : undefined)
  const found = all.find(({ id }) => id === chosen)
  if (found) return found
  if (all.length === 0) throw new CliError(EXIT.refused, 'you are in no organization')
  const why = `which organization: ${all.map(({ slug }) => slug).join(', ')}`
  const answer = await answers.ask({ flag: '-o ORG', why }, 'Organization')
  if (answer === undefined) return undefined
  const named = all.find(({ slug, name, id }) => [slug, name, String(id)].includes(answer))
  if (!named) throw new CliError(EXIT.notFound, `no organization '${answer}'`, why)
  await context.screen.note(cleanText(`Organization ${named.name}`))
  return named
}

/** Everything that a project needs; `made` is null if an answer is missing. */
async function planNewProject(
  given: { name: string | undefined; projects: readonly Project[] },
  options: UpOptions,
  facts: Facts,
  session: Session,
  context: Context,
  answers: Answers,
): Promise<{ made: NewProject | null; rows: Row[]; server: Server | undefined }> {
  const api = session.api as Api
  const organization = await planOrganization(session, context, answers)
  if (organization) {
    const may = mayCreateProject(organization)
    if (may === 'role') {
      throw new CliError(
        EXIT.refused,
        `your role in ${organization.name} is ${organization.role}, which cannot make projects`,
        'ask an administrator to run berth up once; after that you can deploy with it',
      )
    }
    if (may === 'scope') Object.assign(session, await widen(session, context))
  }
  const { items: servers } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
  const server = await planServer(servers, options, answers)
  const guessed = given.name ?? slugOf(facts.checkout.name, 64)
  const isTaken = given.projects.some(({ name }) => name === guessed)
  const ask: Missing = {
    flag: '-p NAME',
    why: isTaken
      ? `the name ${guessed} is taken by a project of another repository`
      : 'the name of the folder is no name of a project',
  }
  const name = isTaken || guessed === '' ? await answers.ask(ask, 'Name of the project') : guessed
  const domain =
    name === undefined || !server
      ? undefined
      : await planDomain(name, server.server, given.projects, options, answers)
  if (name === undefined || !server || !domain || !organization) {
    return { made: null, rows: [], server: server?.server }
  }
  const row = (what: string, value: string, why: string, flag: string): Row => ({
    what,
    value,
    why,
    flag,
  })
  return {
    made: { name, domain: domain.domain, server: server.server, organizationId: organization.id },
    server: server.server,
    rows: [
      row('Server', server.server.name, server.why, '--server'),
      row('Project', name, given.name === undefined ? 'new, from the folder' : 'new', '-p'),
      row('Domain', domain.domain, domain.why, '--domain'),
    ],
  }
}

/** The recipe of the file; the server must be able to run it. */
function planRecipe(
  options: UpOptions,
  facts: Facts,
  server: Server | undefined,
): { recipe: Recipe; draft: Draft | null; why: string } {
  const supported = server?.recipes.length ? server.recipes : undefined
  const cannot = (recipe: Recipe): CliError => {
    const said = server ? recipeReason(server, recipe) : ''
    const reason = said === '' ? '' : `: ${said}`
    const remedy =
      recipe === 'docker'
        ? `install Docker on ${server?.name}, or choose another server with --server`
        : `on ${server?.name} the agent must run as root; or choose another server with --server`
    return new CliError(
      EXIT.refused,
      `${server?.name} cannot run the ${recipe} recipe${reason}`,
      remedy,
    )
  }
  const { ownRecipes, detection } = facts
  if (ownRecipes !== null) {
    if (options.recipe !== undefined && !ownRecipes.includes(options.recipe)) {
      throw usage(
        `${FILE_NAME} has no '${options.recipe}:' section`,
        `it has: ${ownRecipes.join(', ')}`,
      )
    }
    const [first] = ownRecipes
    const recipe =
      options.recipe ?? ownRecipes.find((one) => supported?.includes(one) ?? true) ?? first
    if (recipe === undefined) throw usage(`${FILE_NAME} has no recipe`, 'berth config init --force')
    if (supported && !supported.includes(recipe)) throw cannot(recipe)
    return { recipe, draft: null, why: `${FILE_NAME} has it` }
  }
  if (!detection) throw usage('nothing to deploy')
  const choice = chooseDraft(detection, options.recipe, supported)
  if ('missing' in choice) {
    const best = detection.drafts[0]
    if (best?.problem) throw usage(best.problem, 'then run berth up again')
    throw best && supported ? cannot(best.recipe) : usage(choice.missing)
  }
  const { draft, because } = choice
  if (supported && !supported.includes(draft.recipe)) throw cannot(draft.recipe)
  if (draft.problem !== null) throw usage(draft.problem, 'then run berth up again')
  return { recipe: draft.recipe, draft, why: because ?? `fits ${detection.title}` }
}

/** Values for the first deployment: from a file, made, or typed; never printed. */
async function planVariables(
  options: UpOptions,
  draft: Draft | null,
  isNew: boolean,
  context: Context,
  answers: Answers,
): Promise<Record<string, string>> {
  const values = options.varsFrom === undefined ? new Map() : await readVariables(options.varsFrom)
  if (!isNew || !draft) return Object.fromEntries(values)
  const open = draft.variables.filter(({ key }) => !values.has(key))
  for (const { key, make } of open) {
    if (make === 'hex') values.set(key, randomBytes(64).toString('hex'))
    if (make === 'laravel') values.set(key, `base64:${randomBytes(32).toString('base64')}`)
  }
  const unknown = open.filter(({ make }) => make === undefined)
  if (unknown.length === 0 || options.dryRun) return Object.fromEntries(values)
  if (!mayAsk(context)) {
    const keys = unknown.map(({ key }) => key).join(', ')
    answers.missing.push({ flag: '--vars-from FILE', why: `values of ${keys}` })
    return {}
  }
  for (const { key, services, reason } of unknown) {
    values.set(key, await askSecret(context, `${key} (${services.join(', ')}: ${reason}): `))
  }
  return Object.fromEntries(values)
}

interface Publishing {
  commits: string[]
  pushes: boolean
  pushed: Pushed | null
}

async function planPublishing(
  options: UpOptions,
  facts: Facts,
  branch: string,
  draft: Draft | null,
  context: Context,
  answers: Answers,
): Promise<Publishing> {
  const { checkout, remote } = facts
  const name = 'value' in remote && options.repo === undefined ? remote.value.name : null
  const pushed = name === null ? null : await lookAtRemote(checkout, name, branch)
  const isThere = pushed === null ? null : await hasFile(checkout, pushed.sha, FILE_NAME)
  const commits = draft
    ? [FILE_NAME, ...draft.files.map(({ path }) => path)]
    : isThere === false
      ? await uncommitted(checkout, [FILE_NAME])
      : []
  const pushes = draft !== null || isThere === false
  if (!pushes) return { commits: [], pushes: false, pushed }
  const files = commits.length > 0 ? commits.join(', ') : FILE_NAME
  if (name === null) {
    throw usage(
      `${FILE_NAME} is not in the repository yet`,
      'berth config init writes it; commit and push it, then run berth up again',
    )
  }
  if (checkout.branch !== branch) {
    throw usage(
      `${files} must be on ${branch}, which is deployed, and ${checkout.branch ?? 'no branch'} is checked out here`,
      `git switch ${branch}, or deploy this branch: --branch ${checkout.branch ?? 'BRANCH'}`,
    )
  }
  if (!context.globals.yes && !mayAsk(context) && !options.dryRun) {
    const verb = commits.length > 0 ? `commits ${files} and pushes` : 'pushes'
    answers.missing.push({ flag: '--yes', why: `${verb} ${branch} to ${name}` })
  }
  return { commits, pushes, pushed }
}

async function planEnvironment(
  api: Api,
  project: ProjectDetail | null,
  branch: string,
  options: UpOptions,
  context: Context,
): Promise<{ environment: Environment | null; identifier: string; isNamed: boolean }> {
  const { globals, io } = context
  const named = globals.env || io.env.BERTH_ENV || (await readLink(io.cwd))?.environment
  const identifier = named ? named : slugOf(branch) || 'main'
  if (!project) return { environment: null, identifier, isNamed: Boolean(named) }
  const { items } = await api.list(`/api/projects/${project.id}/environments`, Environment)
  const find = (): Environment | null => {
    if (!named) {
      const own = items.filter((one) => one.type === 'manual' && one.branch === branch)
      return own.find((one) => one.identifier === identifier) ?? own[0] ?? null
    }
    const isKnown = items.some((one) => one.identifier === named)
    return isKnown || /^id:|^#/.test(named)
      ? matchEnvironment(named, items, project.name, 'change')
      : null
  }
  const environment = find()
  if (environment && options.branch !== undefined && environment.branch !== options.branch) {
    throw usage(
      `${environment.identifier} deploys ${environment.branch}, not ${options.branch}`,
      'name another environment with -e, or leave out --branch',
    )
  }
  return { environment, identifier: environment?.identifier ?? identifier, isNamed: Boolean(named) }
}

export async function planUp(
  options: UpOptions,
  facts: Facts,
  session: Session,
  context: Context,
): Promise<Plan> {
  const answers = new Answers(context)
  const rows: Row[] = []
  const { repo } = facts
  // nothing else can be found out without it
  if (!repo && 'flag' in facts.remote) throw missingError([facts.remote])
  const { api } = session
  const address = repo?.value ?? ''
  if (session.baseUrl !== null) {
    const why = session.me === null ? 'sign in first' : `signed in as ${session.me.name}`
    rows.push({ what: 'Control plane', value: session.baseUrl, why, flag: '--url' })
  }
  if (repo) rows.push({ what: 'Repository', value: repo.value, why: repo.why, flag: '--remote' })
  let project: ProjectDetail | null = null
  let newProject: NewProject | null = null
  let server: Server | undefined
  let found = { environment: null as Environment | null, identifier: '', isNamed: false }
  if (api && repo) {
    const { items } = await api.list('/api/projects', Project, { query: { per_page: 100 } })
    const known = await findProject(api, items, address, context)
    project = known.project
    if (project) {
      rows.push({
        what: 'Project',
        value: project.name,
        why: 'it deploys this repository',
        flag: '-p',
      })
      found = await planEnvironment(api, project, facts.branch.value, options, context)
      const id = found.environment?.server.id ?? project.default_server_id ?? project.servers[0]?.id
      if (id !== undefined) server = (await api.get(`/api/servers/${id}`, Server)).value
      if (server)
        rows.push({ what: 'Server', value: server.name, why: 'of the project', flag: null })
    } else {
      const given = { name: known.name, projects: items }
      const planned = await planNewProject(given, options, facts, session, context, answers)
      found = await planEnvironment(api, null, facts.branch.value, options, context)
      newProject = planned.made
      server = planned.server
      rows.push(...planned.rows)
    }
  } else found.identifier = slugOf(facts.branch.value) || 'main'
  const branch = found.environment?.branch ?? facts.branch.value
  rows.push({
    what: 'Branch',
    value: branch,
    why: found.environment ? `of ${found.environment.identifier}` : facts.branch.why,
    flag: '--branch',
  })
  const { recipe, draft, why } = planRecipe(options, facts, server)
  checkStored(found.environment, recipe, facts, project)
  rows.push({ what: 'Recipe', value: recipe, why, flag: '--recipe' })
  rows.push({
    what: 'Environment',
    value: found.identifier,
    why: found.environment ? 'it is there' : found.isNamed ? 'new' : 'new, from the branch',
    flag: '-e',
  })
  const publishing = await planPublishing(options, facts, branch, draft, context, answers)
  const isNew = found.environment === null
  const variables = await planVariables(options, draft, isNew, context, answers)
  if (answers.missing.length > 0) throw missingError(answers.missing)
  const plan = {
    ...{ rows, facts, repo: address, branch, recipe, draft, ...publishing },
    ...{ baseUrl: session.baseUrl, project, newProject, environment: found.environment },
    ...{ identifier: found.identifier, variables },
    reasons: draft ? [...draft.reasons, ...(facts.detection?.also ?? [])] : [],
  }
  return { ...plan, makes: makesOf(plan) }
}

const missingError = (missing: readonly Missing[]): CliError =>
  usage(missingMessage(missing), `berth up ${missing.map(({ flag }) => flag).join(' ')}`)

/** The recipe follows the file; an environment that was made with the other one is the user's to change. */
function checkStored(
  environment: Environment | null,
  recipe: Recipe,
  { ownRecipes }: Facts,
  project: ProjectDetail | null,
): void {
  if (!environment || environment.recipe === recipe) return
  if (ownRecipes?.includes(environment.recipe)) return
  const flags = `-p ${project?.name} -e ${environment.identifier}`
  throw new CliError(
    EXIT.refused,
    `${environment.identifier} uses the ${environment.recipe} recipe, and ${FILE_NAME} has ${recipe}`,
    `berth env edit ${flags} --recipe ${recipe}`,
  )
}

function makesOf(plan: Omit<Plan, 'makes'>): string[] {
  const { draft, commits, pushes, newProject, environment, identifier, variables } = plan
  const keys = Object.keys(variables)
  return [
    ...(draft ? [`write ${[FILE_NAME, ...draft.files.map(({ path }) => path)].join(', ')}`] : []),
    ...(commits.length > 0 ? [`commit ${commits.join(', ')}, after a question`] : []),
    ...(pushes ? [`push ${plan.branch}, after a question`] : []),
    ...(newProject ? [`create the project ${newProject.name}`] : []),
    ...(environment ? [] : [`create the environment ${identifier}`]),
    ...(keys.length > 0 && !environment ? [`set ${keys.join(', ')}`] : []),
    `deploy ${plan.branch}`,
  ]
}

export async function showPlan({ screen }: Context, plan: Plan): Promise<void> {
  const width = Math.max(...plan.rows.map(({ what }) => what.length))
  for (const { what, value, why, flag } of plan.rows) {
    const because = why.replace(/\.$/, '')
    const reason = flag === null ? because : `${because}; ${flag} changes it`
    const label = padText(what, width)
    await screen.note(
      `  ${screen.err.paint('dim', label)}   ${cleanText(value)}   ${screen.err.paint('dim', cleanText(`(${reason})`))}`,
    )
  }
  for (const reason of plan.reasons) await screen.note(`  ${cleanText(reason)}`)
  for (const { where, reason } of plan.draft?.notConverted ?? []) {
    await screen.note(cleanText(`  Not converted: ${where}: ${reason}`))
  }
}
