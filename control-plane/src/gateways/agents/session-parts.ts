// What a session of an agent is given and what it tells: the stream below it, the certificate it came with, the gateway around it.
import type { Hello, ServerMessage } from '@berth/shared/wire'
import type { Certified, Opened } from '../../app/servers/sessions.ts'
import type { AgentSession } from './session.ts'

/** The stream, as far as a session needs it. */
export interface ControlStream {
  write(message: ServerMessage): boolean
  /** Messages waiting to be sent. */
  backlog(): number
  pause(): void
  resume(): void
  end(): void
}

export type SessionIdentity = Certified

/** What a session tells the rest of the gateway. */
export interface Gateway {
  agentCount(): number
  opened(session: AgentSession, opened: Opened, hello: Hello): Promise<boolean>
  closed(session: AgentSession): void
  /** Its rows could not be written; endRows is to be called again. */
  unclosed(session: AgentSession): void
}
