// Identifies the user behind a browser. The sign-in library implements it (sign-in/).
import type { From } from '../domain/core/access.ts'

/** Built by the composition root, usable once the address is known. */
export interface Identity {
  answer(request: Request, from: From): Promise<Response>
  /** Finds the user of a browser without renewing the login. */
  findSession(cookie: string): Promise<{ userId: number; sessionId: number } | undefined>
}
