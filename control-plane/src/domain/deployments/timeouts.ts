// How long a task may run on its server. PURE. Waiting for a build slot does not count.
import { deploymentTimeoutMs, readServerSettings, TASKS, type TaskType } from '@berth/shared'

/** The service file sets the timeout of an action, and the server reads it there. Data may be large. */
export function taskTimeoutMs(type: TaskType, serverSettings: string | undefined): number {
  if (type === 'action' || type === 'backup' || type === 'restore') return TASKS.timeoutMaxMs
  const build = serverSettings === undefined ? null : readServerSettings(serverSettings)
  return Math.min(
    TASKS.timeoutMaxMs,
    deploymentTimeoutMs(build?.build_timeout_ms ?? null, TASKS.timeoutMs),
  )
}
