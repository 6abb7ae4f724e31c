// Turns thrown errors into application/problem+json (RFC 9457). Refusals keep their code; faults are logged once with
// their cause and shown only as "Internal error" with the request's id.
import { AppError, ERRORS, type ErrorCode, type FieldProblem } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod'
import { storeRefusal } from '../../../app/core/store-refusals.ts'
import type { Context } from '../../../context.ts'
import { displayName } from '../../../domain/core/display-name.ts'
import { pathOf } from './broken-requests.ts'

export const PROBLEM = 'application/problem+json'

const FASTIFY_CODES: Record<string, [ErrorCode, string]> = {
  FST_ERR_CTP_INVALID_JSON_BODY: ['malformed_json', 'The body is not valid JSON.'],
  FST_ERR_CTP_EMPTY_JSON_BODY: ['malformed_json', 'The body is empty; send a JSON object.'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'Send application/json.'],
  FST_ERR_CTP_BODY_TOO_LARGE: ['body_too_large', 'The body is over 1 MiB.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['malformed_json', 'The body does not match its length.'],
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: ['unsupported_media_type', 'Send application/json.'],
  FST_ERR_BAD_URL: ['invalid_parameter', 'The address is not valid.'],
  FST_ERR_MAX_URL_LENGTH: ['uri_too_long', 'The address is too long.'],
}

interface Issue {
  keyword: string
  instancePath: string
  message?: string
  params?: { keys?: string[] }
}

/** One entry per problem; unknown fields are named one by one. */
function fieldProblems(issues: Issue[]): FieldProblem[] {
  return issues.flatMap((issue) => {
    const field = issue.instancePath.replace(/^\//, '').replaceAll('/', '.')
    if (issue.keyword === 'unrecognized_keys') {
      return (issue.params?.keys ?? []).map((key) => ({
        field: [field, displayName(key)].filter(Boolean).join('.'),
        code: 'unknown_field',
        message: `There is no field "${displayName(key).slice(0, 60)}" here.`,
      }))
    }
    const code = issue.keyword === 'invalid_type' ? 'invalid_type' : 'invalid_value'
    return [{ field, code, message: `${field || 'The body'} ${issue.message ?? 'is not valid'}.` }]
  })
}

function fromValidation(error: { validation: Issue[]; validationContext?: string }): AppError {
  const errors = fieldProblems(error.validation).slice(0, 20)
  const first = errors[0]?.message ?? 'The request is not valid.'
  if (error.validationContext !== 'body') {
    return new AppError('invalid_parameter', first, { errors })
  }
  const detail = errors.length === 1 ? first : `${errors.length} fields are not valid.`
  return new AppError('validation_failed', detail, { errors })
}

/** Node's error for a connection that closed before the body was complete. */
const isCutShort = (error: unknown): boolean =>
  error instanceof Error &&
  error.message === 'aborted' &&
  (error as NodeJS.ErrnoException).code === 'ECONNRESET'

export function toAppError(error: unknown): AppError | undefined {
  if (error instanceof AppError) return error
  if (hasZodFastifySchemaValidationErrors(error)) {
    return fromValidation(error as unknown as Parameters<typeof fromValidation>[0])
  }
  const ofStore = storeRefusal(error)
  if (ofStore) return ofStore
  // the client disconnected while sending, which is not a fault
  if (isCutShort(error))
    return new AppError('malformed_json', 'The body ended before it was whole.')
  const known = FASTIFY_CODES[String((error as { code?: unknown })?.code ?? '')]
  return known && new AppError(known[0], known[1])
}

function problemOf(ctx: Context, error: AppError, request: FastifyRequest): object {
  return {
    type: `${ctx.baseUrl}/docs/errors/${error.code}`,
    title: ERRORS[error.code][1],
    status: error.status,
    detail: error.message,
    instance: pathOf(request),
    code: error.code,
    request_id: request.id,
    ...error.details,
  }
}

const RETRY_SECONDS = 5

export function sendProblem(
  ctx: Context,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  let refusal = toAppError(error)
  if (!refusal) {
    ctx.log.error({ err: error, requestId: request.id, method: request.method }, 'request failed')
    refusal = new AppError('internal_error', 'Internal error')
  }
  if (refusal.code.startsWith('token_')) {
    const given = refusal.code === 'token_missing' ? '' : ', error="invalid_token"'
    reply.header('www-authenticate', `Bearer realm="api"${given}`)
  }
  if (refusal.code === 'insufficient_scope') {
    const scope = String(refusal.details.required_scope)
    reply.header(
      'www-authenticate',
      `Bearer realm="api", error="insufficient_scope", scope="${scope}"`,
    )
  }
  if (refusal.status === 503 || refusal.status === 429) {
    reply.header('retry-after', String(refusal.details.retry_after ?? RETRY_SECONDS))
  }
  return reply
    .code(refusal.status)
    .type(PROBLEM)
    .header('cache-control', 'no-store')
    .send(problemOf(ctx, refusal, request))
}
