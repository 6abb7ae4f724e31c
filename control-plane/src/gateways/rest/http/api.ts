// What routes are built with: the typed Fastify instance, what a route declares about itself, and its caller.
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
    /** Refusals of this operation, besides those of every operation. */
    errors?: readonly ErrorCode[]
    /** The 2xx body shows a secret once, so it is not stored for a repeated Idempotency-Key. */
    showsSecret?: boolean
    /** A stricter rate limit than the default. */
    policy?: Policy
    /** Response headers of this operation besides the common ones: name → meaning. */
    headers?: Readonly<Record<string, string>>
    /** Ignores undeclared query parameters. */
    anyQuery?: boolean
  }
}

/** Returns the caller of an authenticated route. */
export function callerOf(request: FastifyRequest): Caller {
  if (!request.who) throw new AppError('token_missing', 'A bearer token is needed.')
  return request.who.caller
}
