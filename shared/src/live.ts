// What the bus carries, as programs outside the control plane name it.

/** A noun and what became of it: `environment.updated`, `task.queued`. */
export type EventKind =
  `${'organization' | 'member' | 'server' | 'project' | 'environment' | 'pull_request' | 'delivery' | 'task'}.${string}`
