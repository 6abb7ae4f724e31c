// Turns errors into refusals for the dashboard: our code, status, message and details instead of tRPC's. Faults are
// "Internal error" with the request's id and nothing else.
import { AppError, type FieldProblem, invalidFields } from '@berth/shared'
import type { TRPCError } from '@trpc/server'
import { ZodError } from 'zod'
import { storeRefusal } from '../../app/core/store-refusals.ts'
import { displayName } from '../../domain/core/display-name.ts'

/** Undefined for a fault, which must be logged. */
export function refusalOf(error: TRPCError): AppError | undefined {
  const { cause, code } = error
  if (cause instanceof AppError) return cause
  if (cause instanceof ZodError) return invalidFields(cause.issues.flatMap(toProblems).slice(0, 20))
  const ofStore = storeRefusal(cause)
  if (ofStore) return ofStore
  switch (code) {
    case 'NOT_FOUND':
      return new AppError('not_found', 'There is no such procedure.')
    case 'PARSE_ERROR':
      return new AppError('malformed_json', 'The message is not valid JSON.')
    case 'METHOD_NOT_SUPPORTED':
      return new AppError(
        'method_not_allowed',
        'Queries are read with GET, changes sent with POST.',
      )
    case 'BAD_REQUEST':
      return new AppError('invalid_parameter', 'The call could not be read.')
    case 'UNSUPPORTED_MEDIA_TYPE':
      return new AppError('unsupported_media_type', 'Send application/json.')
    default:
      return undefined
  }
}

/** One entry per problem; unknown fields are named one by one, as in REST. */
function toProblems(issue: ZodError['issues'][number]): FieldProblem[] {
  const field = issue.path.join('.')
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      field: [field, displayName(key)].filter(Boolean).join('.'),
      code: 'unknown_field',
      message: `There is no field "${displayName(key).slice(0, 60)}" here.`,
    }))
  }
  const message = `${field || 'The input'}: ${issue.message}.`
  return [{ field, code: 'invalid_value', message }]
}

interface ErrorData {
  code: AppError['code']
  status: number
  request_id: string | null
  [detail: string]: unknown
}

export function serializeError(
  error: TRPCError,
  requestId: string | null,
): { message: string; data: ErrorData } {
  const refusal = refusalOf(error) ?? new AppError('internal_error', 'Internal error')
  const { code, status, details, message } = refusal
  return { message, data: { ...details, code, status, request_id: requestId } }
}
