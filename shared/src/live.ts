// Names of the events on the bus, as clients of the control plane see them.

/** A noun and what happened to it: `environment.updated`, `task.queued`. */
export type EventKind =
  `${'organization' | 'member' | 'server' | 'project' | 'environment' | 'pull_request' | 'delivery' | 'task'}.${string}`
