// Translates the server's refusals for the client: problem+json → exit code, message, hint. Each gateway has one such
// table; this is the client's. An answer that is not a problem document is reported as such, never guessed at.
import { Problem as Documented } from '@berth/shared/api'
import type { z } from 'zod'
import { CliError, EXIT, type ExitCode } from '../terminal/exit.ts'
import type { ReplyHeaders } from './transport.ts'

/** As documented, except that an invalid list of fields does not make the refusal unreadable. */
const Problem = Documented.omit({ errors: true })
type Problem = z.infer<typeof Problem>

/** `no_answer`: no reply. `refused`: an error status. `nonsense`: a reply that violates the contract. */
type FailureKind = 'no_answer' | 'refused' | 'nonsense'

export class ApiFailure extends CliError {
  readonly kind: FailureKind
  readonly status: number | null
  readonly code: string | null
  readonly details: Readonly<Record<string, unknown>>
  readonly retryAfterMs: number | null

  constructor(
    kind: FailureKind,
    exitCode: ExitCode,
    message: string,
    more: {
      hint?: string | undefined
      status?: number
      code?: string
      details?: Record<string, unknown>
      retryAfterMs?: number | null
      cause?: unknown
    } = {},
  ) {
    super(exitCode, message, more.hint, more.cause)
    this.name = 'ApiFailure'
    this.kind = kind
    this.status = more.status ?? null
    this.code = more.code ?? null
    this.details = more.details ?? {}
    this.retryAfterMs = more.retryAfterMs ?? null
  }
}

/**
 * It is unknown whether the request took effect: a first try may have worked although its answer was lost and later
 * tries were refused.
 */
export const isOutcomeUnknown = ({ kind, status, code }: ApiFailure): boolean =>
  kind !== 'refused' || ([502, 503, 504].includes(status ?? 0) && code !== 'storage_full')

const NOT_READY = ['server_not_ready', 'project_not_ready', 'organization_required']

export function exitCodeOf(status: number, code: string | null): ExitCode {
  if (status === 401 || code === 'insufficient_scope') return EXIT.notLoggedIn
  if (status === 403 || status === 409) return EXIT.refused
  if (status === 404) return EXIT.notFound
  if (status === 422 && code !== null && NOT_READY.includes(code)) return EXIT.refused
  return EXIT.error
}

function hintFor(
  problem: Problem,
  baseUrl: string,
  retryAfterMs: number | null,
): string | undefined {
  const text = (key: string) => (typeof problem[key] === 'string' ? problem[key] : undefined)
  if (problem.status === 401) return `log in again: berth login --url ${baseUrl}`
  switch (problem.code) {
    case 'insufficient_scope':
      return (
        `the token lacks the scope ${text('required_scope') ?? 'for this'}: ` +
        `berth login --url ${baseUrl} --scope ${text('required_scope') ?? 'admin'}`
      )
    case 'organization_required':
      return 'name it with -o ORG (berth whoami lists yours)'
    case 'organization_forbidden':
      return 'berth whoami lists your organizations'
    case 'server_not_ready':
      return 'berth server join-token NAME prints the command to run on the server'
    case 'ssh_unavailable':
      return 'deployment logs need no SSH: berth tasks log'
    case 'rate_limited':
      return retryAfterMs === null
        ? 'try again later'
        : `try again in ${Math.ceil(retryAfterMs / 1_000)} s`
    default:
      return undefined
  }
}

/** One sentence for each wrong field; values appear neither in the answer nor in ours. */
function fieldSentences(problem: Problem): string[] {
  if (!Array.isArray(problem.errors)) return []
  return problem.errors.flatMap((error: unknown) => {
    const { field, message } = (error ?? {}) as { field?: unknown; message?: unknown }
    if (typeof message !== 'string') return []
    const isNamed = typeof field !== 'string' || field === '' || message.startsWith(field)
    return [isNamed ? message : `${field}: ${message}`]
  })
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function parseRetryAfter(value: string | null, now: number): number | null {
  if (value === null) return null
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000
  const date = Date.parse(value)
  return Number.isNaN(date) ? null : Math.max(0, date - now)
}

interface RefusedAnswer {
  baseUrl: string
  method: string
  path: string
  status: number
  headers: ReplyHeaders
  text: string
  now: number
}

export function refusal(answer: RefusedAnswer): ApiFailure {
  const { status, baseUrl } = answer
  const retryAfterMs = parseRetryAfter(answer.headers.get('retry-after'), answer.now)
  const parsed = Problem.safeParse(parseJson(answer.text))
  if (!parsed.success) {
    const id = answer.headers.get('x-request-id')
    const request = id === null ? '' : ` (request ${id})`
    const asked = `${answer.method} ${answer.path}`
    return new ApiFailure(
      'refused',
      status === 401 ? EXIT.notLoggedIn : EXIT.error,
      `${baseUrl} answered ${asked} with status ${status}${request}`,
      {
        status,
        retryAfterMs,
        hint: status < 500 ? 'is this the address of a Berth server?' : undefined,
      },
    )
  }
  const problem = parsed.data
  const fields = fieldSentences(problem)
  const sentence = fields.length > 0 ? fields.join('; ') : problem.detail || problem.title
  return new ApiFailure(
    'refused',
    exitCodeOf(status, problem.code),
    status >= 500 ? `${sentence} (status ${status}, request ${problem.request_id})` : sentence,
    {
      status,
      code: problem.code,
      details: problem,
      retryAfterMs,
      hint: hintFor(problem, baseUrl, retryAfterMs),
    },
  )
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name could not be looked up',
  ETIMEDOUT: 'no answer in time',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  CLOSED: 'connection closed',
  NOT_CONNECTED: 'no connection in time',
}
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/

/** The cause that transport.ts attaches to what it throws. */
interface Cause {
  code?: string
  message?: string
  errors?: { code?: string }[]
}

/** No answer, or only a part of it, came back. */
export function noAnswer(error: unknown, baseUrl: string, timedOut: boolean): ApiFailure {
  const cause = (error as { cause?: Cause }).cause
  const code = cause?.code ?? cause?.errors?.[0]?.code ?? ''
  const reason = timedOut
    ? 'no answer in time'
    : (REASONS[code] ?? (code || (cause?.message ?? 'connection lost')))
  const isCertificate = CERTIFICATE.test(code)
  return new ApiFailure(
    'no_answer',
    EXIT.error,
    isCertificate
      ? `the certificate of ${baseUrl} is not trusted (${code})`
      : `no contact with ${baseUrl} (${reason})`,
    {
      cause: error,
      hint: isCertificate ? 'a private authority is named with --cacert FILE' : undefined,
    },
  )
}
