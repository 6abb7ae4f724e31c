// A state as shape, word and colour together, so that each of them alone is enough.
import { Icon, type IconName } from './icon.tsx'
import css from './status.module.css'

type Tone = 'ok' | 'busy' | 'warn' | 'bad' | 'none'

/** States of environments, tasks, servers, services and deliveries, each with one look. */
const LOOKS: Record<string, readonly [IconName, Tone, string]> = {
  new: ['hollow', 'none', 'New'],
  deploying: ['half', 'busy', 'Deploying'],
  running: ['dot', 'ok', 'Running'],
  stopped: ['hollow', 'none', 'Stopped'],
  degraded: ['warning', 'warn', 'Degraded'],
  failed: ['cross', 'bad', 'Failed'],
  removing: ['half', 'busy', 'Removing'],
  deleting: ['half', 'busy', 'Deleting'],
  active: ['dot', 'ok', 'Active'],
  queued: ['clock', 'busy', 'Queued'],
  succeeded: ['check', 'ok', 'Succeeded'],
  canceled: ['dash', 'none', 'Canceled'],
  skipped: ['dash', 'none', 'Skipped'],
  pending: ['hollow', 'none', 'Pending'],
  online: ['dot', 'ok', 'Online'],
  offline: ['hollow', 'bad', 'Offline'],
  unknown: ['hollow', 'none', 'Unknown'],
  draining: ['half', 'busy', 'Draining'],
  updating: ['half', 'busy', 'Updating'],
  duplicate_identity: ['warning', 'bad', 'Duplicate identity'],
  revoked: ['cross', 'bad', 'Revoked'],
  uninstalled: ['cross', 'bad', 'Uninstalled'],
  restarting: ['warning', 'warn', 'Restarting'],
  exited: ['cross', 'bad', 'Exited'],
  missing: ['cross', 'bad', 'Missing'],
  unmanaged: ['hollow', 'none', 'Not managed by Berth'],
  waiting: ['clock', 'busy', 'Waiting'],
  applied: ['check', 'ok', 'Applied'],
  ignored: ['dash', 'none', 'Ignored'],
  duplicate: ['dash', 'none', 'Duplicate'],
  received: ['hollow', 'none', 'Received'],
  error: ['warning', 'bad', 'Error'],
  refused: ['cross', 'bad', 'Refused'],
  accepted: ['check', 'ok', 'Accepted'],
  delivered: ['check', 'ok', 'Delivered'],
  given_up: ['cross', 'bad', 'Given up'],
  expired: ['dash', 'none', 'Expired'],
}

export const wordOf = (status: string): string => LOOKS[status]?.[2] ?? status

interface StatusProps {
  of: string
  /** Replaces the usual word, because "running" differs between a task and an environment. */
  word?: string
  tone?: Tone
  icon?: IconName
}

export function Status({ of, word, tone, icon }: StatusProps) {
  const look = LOOKS[of] ?? (['hollow', 'none', of] as const)
  return (
    <span className={`${css.status} ${css[tone ?? look[1]]}`}>
      <Icon name={icon ?? look[0]} />
      {word ?? look[2]}
    </span>
  )
}

/** "running" means in progress for a task and healthy for an environment. */
export function TaskStatus({ of, word }: { of: string; word?: string }) {
  const isRunning = of === 'running'
  return (
    <Status
      of={of}
      {...(word === undefined ? {} : { word })}
      {...(isRunning ? { tone: 'busy' as const, icon: 'half' as const } : {})}
    />
  )
}
