// What one notification says, before it takes the form of a channel. PURE. Texts come from repositories, logs and
// users: they are cleaned to one line without control characters here, and each form escapes its own markup.
import { type Happening, stripEscapes, type TaskType } from '@berth/shared'
import { NOTICES } from '../../limits/notices.ts'

export interface Named {
  id: number
  name: string
}

/** Facts at the moment of the happening. Stored as JSON, so fields are added, never renamed. */
export interface Notice {
  happening: Happening | 'test'
  at: number
  organization: Named
  project: Named | null
  environment: NoticeEnvironmentFacts | null
  pullRequest: { number: number; title: string } | null
  server: Named | null
  task: NoticeTask | null
  /** Why it is degraded, what it waits for, which problem a server has. */
  reason: string | null
}

interface NoticeEnvironmentFacts {
  id: number
  identifier: string
  isPreview: boolean
  isProtected: boolean
  /** Where it answers; null if it has no address. */
  address: string | null
}

interface NoticeTask {
  id: number
  type: TaskType
  /** The name of an action, or null. */
  action: string | null
  branch: string
  commitSha: string | null
  commitMessage: string | null
  by: string
  failedStep: string | null
  message: string | null
  /** The line of the failed step that tells most. */
  errorLine: string | null
}

/** One line without control characters and direction marks, at most as long as a notification needs. */
export function cleanLine(text: string, most: number = NOTICES.textCharacters): string {
  const plain = stripEscapes(text)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
  const characters = [...plain]
  return characters.length <= most ? plain : `${characters.slice(0, most - 1).join('')}…`
}

export const cleanOrNull = (text: string | null | undefined): string | null =>
  text ? cleanLine(text) || null : null

const TELLING =
  /\b(?:error|fatal|panic|exception|denied|refused|cannot|can't|could not|couldn't|unable to|not found|no such file|undefined|unexpected|out of memory|killed)\b|✖|ERR!/i

/** The first line that names an error; without one the last line, because programs often end with the reason. */
export function findErrorLine(lines: readonly string[]): string | null {
  const written = lines.map((line) => cleanLine(line)).filter((line) => line !== '')
  return written.find((line) => TELLING.test(line)) ?? written.at(-1) ?? null
}

export type Tone = 'bad' | 'good' | 'neutral'

/** A notification as every form shows it. */
export interface Message {
  title: string
  tone: Tone
  /** Sentences: what happened and why. */
  lines: string[]
  /** Text that a program wrote, shown as such; null for none. */
  output: string | null
  /** Names and values. */
  facts: [string, string][]
  links: { text: string; url: string }[]
}

const TASK_NAMES: Partial<Record<TaskType, string>> = {
  deploy: 'deployment',
  destroy: 'removal',
}

const taskName = ({ type, action }: NoticeTask): string =>
  type === 'action' ? `action ${action ?? ''}`.trim() : (TASK_NAMES[type] ?? type)

const subjectOf = ({ project, environment, pullRequest, server, organization }: Notice): string => {
  if (project && environment) return `${project.name} / ${environment.identifier}`
  if (project && pullRequest) return `${project.name} / pull request ${pullRequest.number}`
  return project?.name ?? server?.name ?? organization.name
}

const WORDS: Record<Notice['happening'], [Tone, (notice: Notice) => string]> = {
  'deployment.failed': ['bad', () => 'deployment failed'],
  'deployment.recovered': ['good', () => 'deployment succeeded again'],
  'deployment.succeeded': ['good', () => 'deployed'],
  'deployment.waiting': ['neutral', () => 'deployment waits'],
  'approval.needed': ['neutral', () => 'waits for approval'],
  'task.failed': ['bad', ({ task }) => `${task ? taskName(task) : 'task'} failed`],
  'environment.degraded': ['bad', () => 'degraded'],
  'environment.recovered': ['good', () => 'has recovered'],
  'server.offline': ['bad', () => 'offline'],
  'server.online': ['good', () => 'online again'],
  'server.problem': ['bad', () => 'needs attention'],
  test: ['neutral', () => 'test notification'],
}

export function describeNotice(notice: Notice, baseUrl: string): Message {
  const { project, environment, pullRequest, server, task, reason, happening } = notice
  const [tone, words] = WORDS[happening]
  const lines: string[] = []
  if (task?.failedStep) lines.push(`Failed step: ${task.failedStep}`)
  if (task?.message) lines.push(task.message)
  if (reason) lines.push(reason)
  if (happening === 'test') lines.push('Notifications of this channel arrive here.')
  const facts: [string, string][] = []
  if (pullRequest)
    facts.push(['Pull request', `#${pullRequest.number} ${pullRequest.title}`.trim()])
  if (task?.commitSha) {
    facts.push(['Commit', `${task.commitSha.slice(0, 7)} ${task.commitMessage ?? ''}`.trim()])
  }
  if (task) facts.push(['Branch', task.branch])
  if (task?.by) facts.push(['By', task.by])
  const links: Message['links'] = []
  if (task) links.push({ text: 'Open in Berth', url: `${baseUrl}/tasks/${task.id}` })
  else if (environment)
    links.push({ text: 'Open in Berth', url: `${baseUrl}/environments/${environment.id}` })
  else if (project) links.push({ text: 'Open in Berth', url: `${baseUrl}/projects/${project.id}` })
  else if (server) links.push({ text: 'Open in Berth', url: `${baseUrl}/servers/${server.id}` })
  else links.push({ text: 'Open Berth', url: baseUrl })
  const isUp = tone === 'good' && environment?.address
  if (isUp) links.push({ text: 'Visit', url: environment.address ?? '' })
  return {
    title: `${subjectOf(notice)}: ${words(notice)}`,
    tone,
    lines,
    output: task?.errorLine ?? null,
    facts,
    links,
  }
}
