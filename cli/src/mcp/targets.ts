// Which project and environment a call means. What the server was fixed to at its start is an id from then on, so no
// input and no later name leads elsewhere. The working directory (link file, git remotes) is ignored, because an MCP
// host may start the server in any folder.
import { Environment, Project, ProjectDetail } from '@berth/shared/api'
import type { Api } from '../client/api.ts'
import type { RequestOptions } from '../client/http.ts'
import { matchEnvironment, matchNamed, type Purpose, type Target } from '../client/resolve.ts'
import { CliError, EXIT, usage } from '../terminal/exit.ts'
import { oneLine } from './answer.ts'
import type { Where } from './schemas.ts'

/** What was named at the start. */
interface Fixed {
  project: string | undefined
  environment: string | undefined
}

interface Pin {
  project: Project
  environment: Environment | undefined
}

export interface Targets {
  readonly fixed: { project: boolean; environment: boolean }
  /** Looks up what the server is fixed to; sends no request once it was found. */
  settle(api: Api, options?: RequestOptions): Promise<void>
  find(api: Api, where: Where, purpose: Purpose): Promise<Target>
  /** "project shop (id 12), environment pr-42 (id 101)"; empty: nothing is fixed. */
  describe(): string
}

const ID = /^id:([1-9]\d{0,9})$/
const listProjects = async (api: Api, options: RequestOptions = {}): Promise<Project[]> =>
  (await api.list('/api/projects', Project, { ...options, query: { per_page: 100 } })).items
const listEnvironments = async (api: Api, projectId: number, options: RequestOptions = {}) =>
  (await api.list(`/api/projects/${projectId}/environments`, Environment, options)).items

/** 42 is a pull request, then an id; if both exist, the program must say which. */
export function matchOne(
  word: string,
  known: readonly Environment[],
  projectName: string,
  purpose: Purpose,
): Environment {
  const request = known.find((one) => one.identifier === `pr-${word}`)
  const byId = known.find((one) => String(one.id) === word)
  if (request && byId && request !== byId) {
    throw new CliError(
      EXIT.notFound,
      `'${word}' fits several environments`,
      `one of: pr-${word}, id:${word} (${byId.identifier})`,
    )
  }
  return matchEnvironment(word, known, projectName, purpose)
}

async function lookUp(api: Api, words: Fixed, options?: RequestOptions): Promise<Pin> {
  const id = ID.exec(words.environment ?? '')?.[1]
  if (words.project === undefined) {
    const path = `/api/environments/${id}`
    const { value: environment } = await api.get(path, Environment, options)
    const at = `/api/projects/${environment.project_id}`
    const { value: project } = await api.get(at, ProjectDetail, options)
    return { project, environment }
  }
  const projects = await listProjects(api, options)
  const project = matchNamed(words.project, projects, 'project', 'change')
  if (words.environment === undefined) return { project, environment: undefined }
  const known = await listEnvironments(api, project.id, options)
  return { project, environment: matchOne(words.environment, known, project.name, 'change') }
}

export function createTargets(words: Fixed): Targets {
  const fixed = {
    project: words.project !== undefined || words.environment !== undefined,
    environment: words.environment !== undefined,
  }
  if (words.project === undefined && fixed.environment && !ID.test(words.environment ?? '')) {
    throw usage('-e needs the project it belongs to', 'berth mcp -p PROJECT -e ENV')
  }
  let pin: Pin | undefined
  const settle = async (api: Api, options?: RequestOptions) => {
    if (fixed.project) pin ??= await lookUp(api, words, options)
  }
  return {
    fixed,
    settle,
    async find(api, where, purpose) {
      await settle(api)
      if (pin?.environment) {
        const path = `/api/environments/${pin.environment.id}`
        const { value: environment } = await api.get(path, Environment)
        return { project: pin.project, environment }
      }
      const project =
        pin?.project ??
        matchNamed(String(where.project), await listProjects(api), 'project', purpose)
      const known = await listEnvironments(api, project.id)
      const word = String(where.environment)
      return { project, environment: matchOne(word, known, project.name, purpose) }
    },
    describe() {
      if (!fixed.project) return ''
      const named = (what: string, name: string | undefined, id: number | undefined) =>
        name === undefined
          ? []
          : [`${what} ${oneLine(name)}${id === undefined ? '' : ` (id ${id})`}`]
      return [
        ...named('project', pin?.project.name ?? words.project, pin?.project.id),
        ...named(
          'environment',
          pin?.environment?.identifier ?? words.environment,
          pin?.environment?.id,
        ),
      ].join(', ')
    },
  }
}
