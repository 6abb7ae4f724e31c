// Storage of backups outside the machine, for the control plane and the agents.
export * from './age.ts'
export * from './bucket.ts'
