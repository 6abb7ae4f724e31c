// Which queries an event makes stale. Pure.
export interface LiveMessage {
  kind: string
  seq: number
  project_id?: number | null
  environment_id?: number | null
  task_id?: number | null
  environment?: { id: number; status: string; locked: boolean } | null
}

/** The first word of an event's kind, and the procedures whose answers it changes. */
const TOUCHES: Record<string, readonly string[]> = {
  organization: ['organization', 'me', 'admin', 'backup', 'forge', 'channel'],
  member: ['member', 'invitation', 'me', 'environment', 'organization'],
  server: ['server', 'project', 'environment'],
  project: ['project', 'environment', 'me', 'delivery', 'server', 'variable', 'forge'],
  environment: ['environment', 'project', 'variable', 'action', 'backup', 'pullRequest', 'server'],
  pull_request: ['pullRequest', 'environment', 'project'],
  delivery: ['delivery', 'project', 'pullRequest'],
  task: ['task', 'environment', 'action', 'backup', 'artifact', 'project', 'variable'],
}

const IDS = ['project_id', 'environment_id', 'task_id'] as const

/** Queries about another project, environment or task are left alone. */
export function isTouched(key: readonly unknown[], message: LiveMessage): boolean {
  const [path, rest] = key as [string[], { input?: Record<string, unknown> } | undefined]
  const noun = message.kind.split('.')[0] ?? ''
  if (!Array.isArray(path) || !TOUCHES[noun]?.includes(path[0] ?? '')) return false
  const input = rest?.input ?? {}
  return IDS.every((id) => {
    const asked = input[id]
    const reported = message[id]
    return asked === undefined || reported === undefined || reported === null || asked === reported
  })
}
