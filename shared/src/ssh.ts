// What the control plane signs and servers read: the grant inside a certificate, the two accounts, names of principals.
// Both ends share this spelling.

/** The certificate's extension that carries the grant; sshd ignores unknown extensions. */
export const GRANT_EXTENSION = 'grant@berth.dev'

/** What the holder may do; `server` is the shell of the whole server. */
export type SshVerb = 'logs' | 'artifact' | 'shell' | 'exec' | 'forward' | 'copy' | 'server'

/** JSON in the extension. The authority's signature covers it. */
export interface SshGrant {
  v: 1
  server: number
  user: number
  organization: number
  /** Null for the server itself. */
  environment: number | null
  can: SshVerb[]
  /** Unix seconds: the session ends then, regardless of the certificate's validity. */
  until: number
}

/** Accounts on servers: one without a terminal, one with. */
export const SSH_ACCOUNTS = ['berth-ssh', 'berth-shell'] as const
export type SshAccount = (typeof SSH_ACCOUNTS)[number]

/** The only principal that an account of a server accepts. */
export const sshPrincipal = (serverId: number, account: SshAccount): string =>
  account === 'berth-shell' ? `berth:server:${serverId}:shell` : `berth:server:${serverId}`

/** The name in a server's host certificate; never an address, so any address works. */
export const sshHostAlias = (serverId: number): string => `server-${serverId}.berth.internal`
