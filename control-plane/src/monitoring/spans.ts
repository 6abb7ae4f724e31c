// What traces show of a request and of the task it asked for. The ids follow from those of the request and the task, so
// nothing has to be remembered between the request and the end of its task, which may be days and a restart later.
import { createHash } from 'node:crypto'
import type { Attempt, AttemptStep } from '../store/deployments/attempts.ts'
import type { Task } from '../store/deployments/tasks.ts'

export interface SpanPlace {
  traceId: string
  spanId: string
}

export interface Span extends SpanPlace {
  parentSpanId: string | null
  name: string
  isRequest: boolean
  startMs: number
  endMs: number
  /** Why it failed, in a word; null: it did not. */
  failure: string | null
  attributes: Record<string, string | number>
  /** The caller's own span, if it named one. */
  link: SpanPlace | null
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')
const spanIdOf = (text: string): string => digest(text).slice(0, 16)

export function placeOfRequest(requestId: string): SpanPlace {
  return { traceId: digest(requestId).slice(32, 64), spanId: spanIdOf(requestId) }
}

const TRACE_PARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/

/** Reads the standard header `traceparent`. */
export function readTraceParent(header: unknown): SpanPlace | null {
  const [, traceId = '', spanId = ''] = TRACE_PARENT.exec(String(header)) ?? []
  const isFine = /[1-9a-f]/.test(traceId) && /[1-9a-f]/.test(spanId)
  return isFine ? { traceId, spanId } : null
}

export interface EndedRequest {
  id: string
  method: string
  route: string
  status: number
  startMs: number
  endMs: number
  traceParent: unknown
}

export const spanOfRequest = (request: EndedRequest): Span => ({
  ...placeOfRequest(request.id),
  parentSpanId: null,
  name: `${request.method} ${request.route}`,
  isRequest: true,
  startMs: request.startMs,
  endMs: request.endMs,
  failure: request.status >= 500 ? String(request.status) : null,
  attributes: {
    'http.request.method': request.method,
    'http.route': request.route,
    'http.response.status_code': request.status,
    'berth.request_id': request.id,
  },
  link: readTraceParent(request.traceParent),
})

const NAME_CHARACTERS = 100 // servers name the steps

/** The task, its wait for a server, and each step that ran there. */
export function spansOfTask(
  task: Task,
  attempt: Pick<Attempt, 'id'> | undefined,
  steps: readonly AttemptStep[],
): Span[] {
  if (task.finishedAt === null) return []
  const root = task.requestId === null ? null : placeOfRequest(task.requestId)
  const { traceId } = root ?? placeOfRequest(`task ${task.id} of ${task.createdAt}`)
  const own = spanIdOf(`task ${task.id}`)
  const part = (
    name: string,
    startMs: number,
    endMs: number,
    rest: Partial<Pick<Span, 'failure' | 'attributes'>> = {},
  ): Span => ({
    traceId,
    spanId: spanIdOf(`task ${task.id} ${name} ${startMs}`),
    parentSpanId: own,
    name,
    isRequest: false,
    startMs,
    endMs: Math.max(startMs, endMs),
    failure: null,
    attributes: {},
    link: null,
    ...rest,
  })
  const whole: Span = {
    ...part(task.type, task.createdAt, task.finishedAt, {
      failure: task.status === 'succeeded' ? null : (task.failure?.code ?? task.status),
      attributes: {
        'berth.task_id': task.id,
        'berth.environment_id': task.environmentId,
        'berth.project_id': task.projectId,
        'berth.server_id': task.serverId,
        'berth.trigger': task.triggerBy,
        'berth.status': task.status,
        ...(task.commitSha === null ? {} : { 'berth.commit': task.commitSha }),
        ...(task.requestId === null ? {} : { 'berth.request_id': task.requestId }),
        ...(attempt ? { 'berth.attempt_id': attempt.id } : {}),
      },
    }),
    spanId: own,
    parentSpanId: root?.spanId ?? null,
  }
  const waited = part('wait for the server', task.createdAt, task.startedAt ?? task.finishedAt)
  const ran = steps.flatMap((step) => {
    if (step.startedAt === null || step.durationMs === null) return []
    const name = `${step.phase}: ${step.title}`.slice(0, NAME_CHARACTERS)
    const failed = task.failure?.step === step.stepId
    return part(name, step.startedAt, step.startedAt + step.durationMs, {
      failure: failed ? (task.failure?.code ?? 'failed') : null,
      attributes: { 'berth.step': step.stepId.slice(0, NAME_CHARACTERS) },
    })
  })
  return [whole, waited, ...ran]
}
