// Requests of the control plane to a live agent. Idempotent by request_id for a minute, limited in number and time;
// they end with the session. A kind that this build does not know is answered UNSUPPORTED, never ignored.

import { DAEMON } from '@berth/shared'
import { type Request, RequestErrorCode, type Response, ResponseSchema } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationMs } from '@bufbuild/protobuf/wkt'
import { describeError, type Log } from '../log.ts'
import type { BulkLine } from './bulk.ts'

export type ResponseBody = NonNullable<MessageInitShape<typeof ResponseSchema>['body']>
/**
 * Answers one kind of request. `signal` fires when no caller waits for the answer, also because it was given; transfers
 * over `bulk` continue after it.
 */
export type Answerer = (
  request: Request,
  signal: AbortSignal,
  bulk: BulkLine,
) => Promise<ResponseBody>
export type Answerers = Partial<Record<NonNullable<Request['body']['case']>, Answerer>>

const failure = (code: RequestErrorCode, message: string): ResponseBody => ({
  case: 'error',
  value: { code, message },
})

export class PendingRequests {
  readonly #answerers: Answerers
  readonly #log: Log
  readonly #bulk: BulkLine
  readonly #send: (response: Response) => void
  readonly #open = new Map<string, AbortController>()
  readonly #kept = new Map<string, { response: Response; until: number }>()

  constructor(answerers: Answerers, log: Log, bulk: BulkLine, send: (response: Response) => void) {
    this.#answerers = answerers
    this.#log = log
    this.#bulk = bulk
    this.#send = send
  }

  async answer(request: Request): Promise<void> {
    const { requestId } = request
    const kept = this.#kept.get(requestId)
    if (kept && kept.until > performance.now()) return this.#send(kept.response)
    if (this.#open.has(requestId)) return
    const body = await this.#ask(request)
    const response = create(ResponseSchema, { requestId, body })
    this.#keep(requestId, response)
    this.#send(response)
  }

  cancel(requestId: string): void {
    this.#open.get(requestId)?.abort()
  }

  close(): void {
    for (const controller of this.#open.values()) controller.abort()
    this.#open.clear()
  }

  async #ask(request: Request): Promise<ResponseBody> {
    const kind = request.body.case
    const answerer = kind && this.#answerers[kind]
    if (!answerer) {
      return failure(RequestErrorCode.UNSUPPORTED, 'This agent does not know the question.')
    }
    if (this.#open.size >= DAEMON.requestsInFlight) {
      return failure(RequestErrorCode.TOO_MANY, 'The agent is answering too many questions.')
    }
    const controller = new AbortController()
    this.#open.set(request.requestId, controller)
    const asked = request.deadline ? durationMs(request.deadline) : DAEMON.requestMs
    const ms = Math.min(Math.max(asked, 1), DAEMON.requestMs)
    const ended = new Promise<ResponseBody>((resolve) => {
      const end = (code: RequestErrorCode, message: string) => () => resolve(failure(code, message))
      setTimeout(end(RequestErrorCode.DEADLINE, 'The agent took too long.'), ms).unref()
      controller.signal.addEventListener('abort', end(RequestErrorCode.CANCELED, 'Canceled.'))
    })
    try {
      return await Promise.race([answerer(request, controller.signal, this.#bulk), ended])
    } catch (error) {
      this.#log.error({ request: kind, ...describeError(error) }, 'a question was not answered')
      return failure(RequestErrorCode.INTERNAL, 'Internal error of the agent.')
    } finally {
      controller.abort()
      this.#open.delete(request.requestId)
    }
  }

  #keep(requestId: string, response: Response): void {
    this.#kept.set(requestId, { response, until: performance.now() + DAEMON.requestKeptMs })
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > DAEMON.requestsKept && oldest !== undefined) this.#kept.delete(oldest)
  }
}
