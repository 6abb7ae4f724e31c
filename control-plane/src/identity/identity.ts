// Who is behind a browser, as the rest of the control plane asks for it. The sign-in library answers (sign-in/).
import type { From } from '../domain/core/access.ts'

/** Built by the composition root, usable once the address is known. */
export interface Identity {
  answer(request: Request, from: From): Promise<Response>
  /** Finds whose browser this is, and renews nothing. */
  findSession(cookie: string): Promise<{ userId: number; sessionId: number } | undefined>
}
