// Who or what started a task and how it ended, in a few words. PURE.
import type { Task } from '../../data.ts'

const VIA: Record<string, string> = {
  dashboard: 'dashboard',
  api: 'API',
  cli: 'CLI',
  mcp: 'MCP',
  webhook: 'webhook',
}

/** "Ada via dashboard", "Schedule" */
export function triggeredBy({
  trigger,
  triggered_by: by,
}: Pick<Task, 'trigger' | 'triggered_by'>): string {
  if (trigger === 'schedule') return 'Schedule'
  if (trigger === 'reconcile') return 'Repository polling'
  if (trigger === 'system') return by.name
  return `${by.name} via ${VIA[trigger] ?? trigger}`
}

type Canceled = Pick<Task, 'cancel_reason' | 'canceled_by' | 'superseded_by'>

/** Says only what is known; a superseded task names its successor elsewhere. */
export function canceledWords({ cancel_reason: why, canceled_by: by }: Canceled): string {
  switch (why) {
    case 'user':
      return `Canceled by ${by ?? 'a user'}.`
    case 'environment_removed':
      return by
        ? `Canceled because ${by} removed the environment.`
        : 'Canceled: environment removed.'
    case 'superseded':
      return 'Canceled before it started.'
    case null:
      return 'Canceled.'
  }
}
