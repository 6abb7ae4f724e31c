// Words that the control plane signs and the server side reads: the grant inside a certificate, the two accounts, names
// of principals. One spelling for both ends.

/** The certificate's extension that carries the grant; sshd ignores extensions it does not know. */
export const GRANT_EXTENSION = 'grant@berth.dev'

/** What the holder may do; `server` is the shell of the whole server. */
export type SshVerb = 'logs' | 'artifact' | 'shell' | 'exec' | 'server'

/** JSON in the extension. The authority's signature is the grant's signature. */
export interface SshGrant {
  v: 1
  server: number
  user: number
  organization: number
  /** Null: the server itself. */
  environment: number | null
  can: SshVerb[]
  /** Unix seconds: the session ends then, however long the certificate was valid. */
  until: number
}

/** Accounts on servers: one without a terminal, one with. */
export const SSH_ACCOUNTS = ['berth-ssh', 'berth-shell'] as const
export type SshAccount = (typeof SSH_ACCOUNTS)[number]

/** The one principal an account of a server takes. */
export const sshPrincipal = (serverId: number, account: SshAccount): string =>
  account === 'berth-shell' ? `berth:server:${serverId}:shell` : `berth:server:${serverId}`

/** The name a server's host certificate is for; never an address, so any address works. */
export const sshHostAlias = (serverId: number): string => `server-${serverId}.berth.internal`
