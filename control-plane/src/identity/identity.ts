// Identifies the user behind a browser. The sign-in library implements it (sign-in/).
import type { From } from '../domain/core/access.ts'

export interface BrowserLogin {
  userId: number
  sessionId: number
  /** When the user last proved who they are. */
  verifiedAt: number
  lastUsedAt: number | null
}

/** Built by the composition root, usable once the address is known. */
export interface Identity {
  /** `provenUser`: a passkey proved the user, and a session may begin without a password. */
  answer(request: Request, from: From, provenUser?: number): Promise<Response>
  /** Finds the user of a browser without renewing the login. */
  findSession(cookie: string): Promise<BrowserLogin | undefined>
  /** Finds a session whose second factor is still missing; `findSession` does not see it. */
  findAwaiting(cookie: string): Promise<BrowserLogin | undefined>
}
