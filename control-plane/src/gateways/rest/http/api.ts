// What a route is written with: the typed Fastify instance, what a route declares about itself, and its caller.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError, type ErrorCode } from '@berth/shared'
import type { Permission } from '@berth/shared/api'
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import type { ByToken } from '../../../app/people/callers.ts'
import type { Caller } from '../../../domain/core/access.ts'
import type { Policy } from '../../../identity/quotas.ts'

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

declare module 'fastify' {
  interface FastifyRequest {
    who: ByToken | null
  }
  interface FastifyContextConfig {
    /** What the caller needs: a permission of `domain/core/access.ts`, or one of the three words. */
    needs?: Permission | 'token' | 'platform_admin' | 'nothing'
    /** Refusals of this operation beyond those every operation has. */
    errors?: readonly ErrorCode[]
    /** The 2xx body shows a secret once: it is not kept for a repeated Idempotency-Key. */
    showsSecret?: boolean
    /** A stricter rate limit than the default one. */
    policy?: Policy
    /** Response headers of this operation beyond those every answer has: name → what it says. */
    headers?: Readonly<Record<string, string>>
    /** Query parameters that nobody declared are left alone. */
    anyQuery?: boolean
  }
}

/** The caller of an authenticated route. */
export function callerOf(request: FastifyRequest): Caller {
  if (!request.who) throw new AppError('token_missing', 'A bearer token is needed.')
  return request.who.caller
}
