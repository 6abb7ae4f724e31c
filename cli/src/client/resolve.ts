// Which project and environment a command means: flag > BERTH_PROJECT/BERTH_ENV > .berth/project.json > git remotes.
// Matching is pure. Commands that change something accept no prefix, because it may match another environment tomorrow.

import { Environment, Project, ProjectDetail } from '@berth/shared/api'
import type { Context } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, usage } from '../terminal/exit.ts'
import { suggest } from '../terminal/suggest.ts'
import type { Api } from './api.ts'
import { normalizeRepoUrl, readLink, readRemotes } from './repository.ts'

export interface Target {
  project: Project
  environment: Environment
}
/** `change`: the command changes something. */
export type Purpose = 'read' | 'change'

export const targetName = (target: Target): string =>
  `${target.project.name} / ${target.environment.identifier}`

const idOf = (word: string, prefix: string): number | undefined => {
  const digits = word.startsWith(prefix) ? word.slice(prefix.length) : undefined
  return digits !== undefined && /^[1-9]\d{0,9}$/.test(digits) ? Number(digits) : undefined
}

function ambiguous(word: string, what: string, candidates: readonly string[]): CliError {
  const some = candidates.slice(0, CLIENT.candidates).join(', ')
  return new CliError(EXIT.notFound, `'${word}' fits several ${what}`, `one of: ${some}`)
}

/** Tries one rule after the other; the first with a match decides. */
function pick<T>(
  word: string,
  what: string,
  rules: readonly (readonly T[])[],
  nameOf: (one: T) => string,
): T | undefined {
  for (const found of rules) {
    if (found.length > 1) throw ambiguous(word, what, found.map(nameOf))
    if (found[0] !== undefined) return found[0]
  }
  return undefined
}

export function matchNamed<T extends { id: number; name: string }>(
  word: string,
  known: readonly T[],
  what: string,
  purpose: Purpose,
): T {
  const exactId = idOf(word, 'id:')
  const rules = [
    known.filter((one) => one.name === word),
    known.filter((one) => one.id === (exactId ?? idOf(word, ''))),
    known.filter((one) => purpose === 'read' && one.name.startsWith(word)),
  ]
  const names = (one: T) => `${one.name} (id:${one.id})`
  const found = pick(word, `${what}s`, exactId ? rules.slice(1, 2) : rules, names)
  if (found) return found
  const hint = suggest(
    word,
    known.map((one) => one.name),
    `${what}s`,
  )
  throw new CliError(EXIT.notFound, `no ${what} '${word}'`, hint)
}

/** Identifier, pull request, id, branch, unique prefix; `id:42` is always an id. */
export function matchEnvironment(
  word: string,
  known: readonly Environment[],
  projectName: string,
  purpose: Purpose,
): Environment {
  const exactId = idOf(word, 'id:')
  const number = idOf(word, '#') ?? idOf(word, '')
  const byId = known.filter((one) => one.id === (exactId ?? idOf(word, '')))
  const rules = [
    known.filter((one) => one.identifier === word),
    known.filter((one) => one.type === 'pull_request' && one.identifier === `pr-${number}`),
    byId,
    known.filter((one) => one.branch === word),
    known.filter((one) => purpose === 'read' && one.identifier.startsWith(word)),
  ]
  const found = pick(word, 'environments', exactId ? [byId] : rules, (one) => one.identifier)
  if (found) return found
  throw new CliError(
    EXIT.notFound,
    `no environment '${word}' in ${projectName}`,
    suggest(
      word,
      known.map((one) => one.identifier),
      'environments',
    ),
  )
}

/** Projects whose repository is one of these remotes. */
export function matchRemotes(remotes: readonly string[], known: readonly Project[]): Project[] {
  const here = new Set(remotes.map(normalizeRepoUrl))
  return known.filter((project) => here.has(normalizeRepoUrl(project.repo_url)))
}

export async function findProject(api: Api, context: Context, purpose: Purpose): Promise<Project> {
  const { globals, io } = context
  const named = globals.project || io.env.BERTH_PROJECT || (await readLink(io.cwd))?.project
  const { items } = await api.list('/api/projects', Project, { query: { per_page: 100 } })
  if (named) return matchNamed(named, items, 'project', purpose)
  const found = matchRemotes(await readRemotes(io.cwd), items)
  if (found.length > 1) {
    throw ambiguous(
      'the git remote',
      'projects',
      found.map((project) => project.name),
    )
  }
  if (found[0]) return found[0]
  throw usage(
    'which project?',
    items.length === 0
      ? 'there is none yet: berth project create'
      : 'name it with -p PROJECT (berth projects lists them)',
  )
}

/** The word for the environment; the link file counts only together with its own project. */
async function environmentWord({ globals, io }: Context): Promise<string | undefined> {
  const named = globals.env || io.env.BERTH_ENV
  if (named) return named
  const projectIsNamed = Boolean(globals.project || io.env.BERTH_PROJECT)
  return projectIsNamed ? undefined : ((await readLink(io.cwd))?.environment ?? undefined)
}

/** Whether the user or the directory names an environment. */
export const namesEnvironment = async (context: Context): Promise<boolean> =>
  (await environmentWord(context)) !== undefined

export async function findTarget(api: Api, context: Context, purpose: Purpose): Promise<Target> {
  const word = await environmentWord(context)
  if (word === undefined) {
    throw usage('which environment?', 'name it with -e ENV (berth envs lists them)')
  }
  const exactId = idOf(word, 'id:')
  if (exactId !== undefined && context.globals.project === undefined) {
    const { value: environment } = await api.get(`/api/environments/${exactId}`, Environment)
    const { value } = await api.get(`/api/projects/${environment.project_id}`, ProjectDetail)
    return { project: value, environment }
  }
  const project = await findProject(api, context, purpose)
  const path = `/api/projects/${project.id}/environments`
  const { items } = await api.list(path, Environment)
  return { project, environment: matchEnvironment(word, items, project.name, purpose) }
}
