// Words for channels and rules of notifications.
import type { api } from '../../api.ts'
import { useProjects } from '../../data.ts'

export type Channel = Awaited<ReturnType<typeof api.channel.list.query>>['channels'][number]
export type Rule = Channel['rules'][number]
export type Happening = Rule['happenings'][number]

export const KINDS: Record<Channel['kind'], string> = {
  email: 'E-mail',
  slack: 'Slack',
  discord: 'Discord',
  teams: 'Microsoft Teams',
  mattermost: 'Mattermost',
  webhook: 'Webhook',
}

export const HAPPENINGS: Record<Happening, string> = {
  'deployment.failed': 'Deployment failed',
  'deployment.recovered': 'Deployment succeeded after a failure',
  'deployment.succeeded': 'Every successful deployment',
  'deployment.waiting': 'Deployment waits for a server or a free environment',
  'approval.needed': 'Pull request from a fork needs approval',
  'task.failed': 'Action, backup or removal failed',
  'environment.degraded': 'Environment degraded',
  'environment.recovered': 'Environment recovered',
  'server.offline': 'Server offline',
  'server.online': 'Server online again',
  'server.problem': 'Server needs attention (disk, certificate)',
}
export const HAPPENING_NAMES = Object.keys(HAPPENINGS) as Happening[]

/** Chosen in the form of a new channel: what needs attention, and its end. */
export const USUAL: ReadonlySet<Happening> = new Set<Happening>([
  'deployment.failed',
  'deployment.recovered',
  'approval.needed',
  'task.failed',
  'environment.degraded',
  'environment.recovered',
  'server.offline',
  'server.online',
  'server.problem',
])

export const TYPES: Record<NonNullable<Rule['environment_type']>, string> = {
  preview: 'Previews of pull requests',
  manual: 'Manual environments',
  protected: 'Protected environments',
}

/** Of the current organization. */
export function useProjectNames(): Map<number, string> {
  const { data } = useProjects()
  return new Map(data?.projects.map((p) => [p.id, p.name]))
}

/** "Deployment failed, Server offline · only shop · Protected environments" */
export function describeRule(rule: Rule, projects: ReadonlyMap<number, string>): string {
  const isAll = rule.happenings.length === HAPPENING_NAMES.length
  const what = isAll ? 'Everything' : rule.happenings.map((one) => HAPPENINGS[one]).join(', ')
  const project = rule.project_id === null ? undefined : projects.get(rule.project_id)
  return [
    what,
    rule.project_id === null ? '' : `only ${project ?? `project ${rule.project_id}`}`,
    rule.environment_type ? TYPES[rule.environment_type] : '',
  ]
    .filter(Boolean)
    .join(' · ')
}
