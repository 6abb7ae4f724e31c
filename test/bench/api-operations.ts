// What `npm run bench -- api` asks for: every list with its filters, second pages, single things, the dashboard's first
// page, and a deployment. Filters find as much in a short history as in a long one, so the answers are equally long.
import type { Installation } from './api-seed.ts'

export interface Operation {
  name: string
  method: 'GET' | 'POST'
  path(installation: Installation, i: number): string
  /** Also compared with plain node:http. */
  isFrequent?: true
  /** Reads where the first page links to. */
  isSecondPage?: true
}

const read = (
  name: string,
  path: (installation: Installation) => string,
  over: Partial<Operation> = {},
): Operation => ({ name: `GET ${name}`, method: 'GET', path, ...over })

const tasks = (query: string, over: Partial<Operation> = {}): Operation =>
  read(
    `environment's tasks${query}`,
    (o) => `/api/environments/${o.environmentId}/tasks${query}`,
    over,
  )
const projectTasks = (query: string): Operation =>
  read(`project's tasks${query}`, (o) => `/api/projects/${o.projectId}/tasks${query}`)
const audit = (name: string, query: (o: Installation) => string, over: Partial<Operation> = {}) =>
  read(
    `audit${name}`,
    (o) => `/api/organizations/${o.organizationId}/audit?per_page=5${query(o)}`,
    over,
  )
const page = (name: string, input: (o: Installation) => object): Operation =>
  read(
    `dashboard ${name}`,
    (o) => `/trpc/${name}?input=${encodeURIComponent(JSON.stringify(input(o)))}`,
  )

const HALF_A_YEAR_MS = 183 * 86_400_000
const halfAYearAgo = new Date(Date.now() - HALF_A_YEAR_MS).toISOString()

export const OPERATIONS: Operation[] = [
  read('/api/projects', () => '/api/projects', { isFrequent: true }),
  read('/api/projects, second page', () => '/api/projects', { isSecondPage: true }),
  read("project's environments", (o) => `/api/projects/${o.projectId}/environments`, {
    isFrequent: true,
  }),
  tasks('', { isFrequent: true }),
  tasks('?per_page=20', { isSecondPage: true, name: "GET environment's tasks, second page" }),
  tasks('?status=failed&per_page=5'),
  tasks('?status=queued'),
  tasks('?trigger=api&per_page=5'),
  tasks('?trigger=mcp'),
  tasks('?trigger=api&status=failed&per_page=1'),
  tasks('?type=all'),
  tasks('?type=backup'),
  tasks(`?per_page=5&until=${halfAYearAgo}`),
  projectTasks('?per_page=20'),
  projectTasks('?status=failed&per_page=5'),
  projectTasks('?trigger=mcp'),
  projectTasks('?trigger=cli&per_page=3'),
  read('/api/tasks/{id}', (o) => `/api/tasks/${o.taskId}`),
  read('/api/environments/{id}', (o) => `/api/environments/${o.environmentId}`),
  read('/api/servers', () => '/api/servers'),
  audit('', () => ''),
  audit(', second page', () => '', { isSecondPage: true }),
  audit('?verb=project.update', () => '&verb=project.update'),
  audit('?verb=variable.', () => '&verb=variable.'),
  audit('?verb=project.delete', () => '&verb=project.delete'),
  audit('?actor=user', (o) => `&actor=user:${o.userId}`),
  audit('?actor, of none', () => '&actor=user:999999'),
  audit('?subject', (o) => `&subject=environment:${o.environmentId}`),
  audit('?until', () => `&until=${halfAYearAgo}`),
  page('project.overview', () => ({})),
  page('environment.get', (o) => ({ environment_id: o.environmentId })),
  {
    name: 'POST environment tasks',
    method: 'POST',
    path: ({ environmentIds }, i) => `/api/environments/${environmentIds[1 + i]}/tasks`,
    isFrequent: true,
  },
]
