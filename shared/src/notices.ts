// What users can be told about, over which channels, and of which environments. The words are part of the API, so a
// word never changes its meaning.

export const CHANNEL_KINDS = [
  'email',
  'slack',
  'discord',
  'teams',
  'mattermost',
  'webhook',
] as const
export type ChannelKind = (typeof CHANNEL_KINDS)[number]

/** Each happening with the sentence that documentation and forms show. */
export const HAPPENINGS = {
  'deployment.failed': 'A deployment failed.',
  'deployment.recovered': 'A deployment succeeded after the one before it had failed.',
  'deployment.succeeded':
    'A deployment succeeded. Sent as deployment.recovered to rules that name both.',
  'deployment.waiting': 'A deployment waits: for an offline server, or for a free environment.',
  'approval.needed': 'A pull request from a fork waits for the approval of a member.',
  'task.failed': 'Something else failed: an action, a backup, a restore, a restart, a removal.',
  'environment.degraded': 'An environment no longer runs as it was deployed.',
  'environment.recovered': 'A degraded environment runs as it was deployed again.',
  'server.offline': 'Nothing was heard of a server for five minutes.',
  'server.online': 'A server that was offline is back.',
  'server.problem':
    'A server runs out of disk space or does not renew its certificate, or that is over.',
} as const
export type Happening = keyof typeof HAPPENINGS
export const HAPPENING_NAMES = Object.keys(HAPPENINGS) as [Happening, ...Happening[]]

/** What a new rule names unless the user chooses: what needs attention, and its end. */
export const USUAL_HAPPENINGS = [
  'deployment.failed',
  'deployment.recovered',
  'approval.needed',
  'task.failed',
  'environment.degraded',
  'environment.recovered',
  'server.offline',
  'server.online',
  'server.problem',
] as const satisfies readonly Happening[]

/** `preview`: of a pull request; `manual`: made by a user; `protected`: only its owner changes it, of either kind. */
export const NOTICE_ENVIRONMENTS = ['preview', 'manual', 'protected'] as const
export type NoticeEnvironment = (typeof NOTICE_ENVIRONMENTS)[number]

/** A server belongs to no project and no environment, so a rule for one of those never matches it. */
export const isAboutServer = (happening: Happening): boolean => happening.startsWith('server.')

/** The states of one notification to one channel. */
export const NOTIFICATION_STATUSES = ['waiting', 'delivered', 'given_up', 'skipped'] as const
export type NotificationStatus = (typeof NOTIFICATION_STATUSES)[number]

/** What an alert of the platform is about. */
export type AlertKind =
  | 'server_offline'
  | 'disk_full'
  | 'certificate'
  | 'delivery'
  | 'degraded'
  | 'forge'
  | 'backup'
