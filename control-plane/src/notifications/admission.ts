// Authenticates a caller and keeps the result fresh. A browser sends its login's cookie, a program a token. On a socket
// or stream the result ages: before anything is sent, it is checked again if it is older than a few seconds, so that a
// token, login or membership that ends also ends its subscriptions.
import { AppError } from '@berth/shared'
import { requirePermission } from '../app/core/access.ts'
import { authenticateSession } from '../app/people/browser-callers.ts'
import { type Authenticated, authenticate } from '../app/people/callers.ts'
import type { Context } from '../context.ts'
import { type Caller, mayAskOrganization } from '../domain/core/access.ts'
import { LIVE } from '../limits/browser.ts'

type Who = Pick<Authenticated, 'caller' | 'user'>

export interface Credentials {
  authorization: string | undefined
  cookie: string | undefined
  /** From a socket's first message, because browsers cannot set headers there. */
  token?: string | undefined
}

interface From {
  address: string
  requestId: string
}

/** The caller must have checked the Origin. */
export async function identify(ctx: Context, given: Credentials, from: From): Promise<Who> {
  if (given.token !== undefined) return authenticate(ctx, `Bearer ${given.token}`, from)
  if (given.authorization !== undefined) return authenticate(ctx, given.authorization, from)
  const who = await authenticateSession(ctx, { cookie: given.cookie }, from)
  if (!who) throw new AppError('token_missing', 'Sign in first.')
  return who
}

/** The organization header narrows a request, as in REST. */
export function askOrganization<W extends Who>(who: W, header: string | string[] | undefined): W {
  if (header === undefined) return who
  // digits only, because Number also reads "0x1" and "1e3"
  const id = /^[1-9][0-9]*$/.test(String(header)) ? Number(header) : 0
  if (!Number.isSafeInteger(id) || id <= 0) {
    throw new AppError('invalid_organization', 'X-Service-Organization must be a positive integer.')
  }
  const caller = { ...who.caller, askedOrganizationId: id }
  if (!mayAskOrganization(caller)) {
    throw new AppError('organization_forbidden', 'You cannot act in this organization.')
  }
  return { ...who, caller }
}

export class Admission {
  readonly #ctx: Context
  readonly #again: () => Promise<Who>
  readonly #onEnded: (refusal: AppError) => void
  #who: Who
  #checkedAt: number
  #checking: Promise<void> | undefined

  constructor(
    ctx: Context,
    who: Who,
    again: () => Promise<Who>,
    onEnded: (refusal: AppError) => void,
  ) {
    this.#ctx = ctx
    this.#who = who
    this.#again = again
    this.#onEnded = onEnded
    this.#checkedAt = ctx.clock.now()
  }

  get caller(): Caller {
    return this.#who.caller
  }

  get user(): Who['user'] {
    return this.#who.user
  }

  /** Throws unless the organization may be read now; `again` ignores the cached result. */
  async require(organizationId: number, again: boolean): Promise<void> {
    await this.check(again)
    requirePermission(this.caller, organizationId, 'read')
  }

  /** How long the result may still be trusted; a caller must check again within this time. */
  get trustedMs(): number {
    const age = this.#ctx.clock.now() - this.#checkedAt
    return Math.max(1, Math.min(LIVE.recheckMs, LIVE.recheckMs - age))
  }

  async check(again = false): Promise<void> {
    const age = this.#ctx.clock.now() - this.#checkedAt
    if (!again && age >= 0 && age < LIVE.recheckMs) return
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    await this.#checking
  }

  async #check(): Promise<void> {
    const at = this.#ctx.clock.now()
    try {
      this.#who = await this.#again()
      this.#checkedAt = at
    } catch (error) {
      if (error instanceof AppError) this.#onEnded(error)
      throw error
    }
  }
}
