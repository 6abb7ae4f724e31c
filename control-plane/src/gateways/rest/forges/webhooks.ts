// The gateway of forges: POST /webhooks/{project_id}. The body is read as raw bytes, because those were signed. Limits
// come first: wrong signatures count before a body is read, large bodies while they are in memory. A verified delivery
// is always answered with 202.
import { AppError } from '@berth/shared'
import { WebhookAnswer } from '@berth/shared/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { receiveDelivery } from '../../../app/forges/webhook-intake.ts'
import type { Context } from '../../../context.ts'
import { WEBHOOKS } from '../../../limits/forges.ts'
import { serializeAnswer } from '../../serializers/delivery.ts'
import type { Api } from '../http/api.ts'
import { sendProblem } from '../http/problem.ts'
import { WebhookFailures } from './webhook-failures.ts'

const FORM = 'application/x-www-form-urlencoded'

/** Only a plain number is an id; anything else is treated as unknown. */
const idOf = (given: string): number | undefined =>
  /^[1-9][0-9]{0,9}$/.test(given) && Number(given) <= 2_147_483_647 ? Number(given) : undefined

/** The project that the delivery names; all unknown ones count as one. */
const projectOf = (request: FastifyRequest): string =>
  String(idOf((request.params as { project_id: string }).project_id) ?? 'none')

/** Takes the first value of each header; no forge sends a signature twice. */
const single = (request: FastifyRequest): Record<string, string | undefined> =>
  Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value[0] : value,
    ]),
  )

const ERRORS: Record<string, AppError> = {
  FST_ERR_CTP_BODY_TOO_LARGE: new AppError('body_too_large', 'The body is over 25 MiB.'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: new AppError(
    'unsupported_media_type',
    `Send application/json or ${FORM}.`,
  ),
}

export function webhookRoutes(api: Api, ctx: Context): void {
  const failures = new WebhookFailures(ctx.quotas.narrow.webhookFailures, () => ctx.clock.now())
  api.removeAllContentTypeParsers()
  api.addContentTypeParser(
    ['application/json', FORM],
    { parseAs: 'buffer', bodyLimit: WEBHOOKS.bodyBytes },
    (_request, body, done) => done(null, body),
  )
  api.setErrorHandler((error, request, reply) => {
    const code = String((error as { code?: unknown }).code ?? '')
    return sendProblem(ctx, ERRORS[code] ?? error, request, reply)
  })
  const admitLarge = countLarge()
  api.addHook('onRequest', async (request, reply) => {
    failures.check(request.ip, projectOf(request))
    admitLarge(request, reply)
  })
  api.post(
    '/webhooks/:project_id',
    {
      bodyLimit: WEBHOOKS.bodyBytes,
      config: {
        needs: 'nothing',
        errors: [
          'invalid_signature',
          'unavailable',
          'database_unavailable',
          'outcome_unknown',
          'storage_full',
        ],
        anyQuery: true,
      },
      schema: {
        summary: 'A delivery of a repository host',
        params: z.object({ project_id: z.string() }),
        response: { 202: WebhookAnswer },
      },
    },
    async (request, reply) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      const row = await receiveDelivery(ctx, {
        projectId: idOf(request.params.project_id),
        headers: single(request),
        body,
        isForm: (request.headers['content-type'] ?? '').toLowerCase().startsWith(FORM),
        address: request.ip,
      }).catch(async (error: unknown) => {
        const isWrong = error instanceof AppError && error.code === 'invalid_signature'
        if (isWrong) await failures.note(request.ip, projectOf(request))
        throw error
      })
      failures.noteGood(request.ip)
      return reply.code(202).header('cache-control', 'no-store').send(serializeAnswer(row))
    },
  )
}

/** A body of unknown length counts as large. The slot is released when the response closes. */
function countLarge(): (request: FastifyRequest, reply: FastifyReply) => void {
  let large = 0
  return (request, reply) => {
    const length = Number(request.headers['content-length'] ?? Number.NaN)
    if (length <= WEBHOOKS.largeBytes) return
    if (large >= WEBHOOKS.largeAtOnce) {
      throw new AppError('unavailable', 'Too many large deliveries at once. Send it again.')
    }
    large += 1
    reply.raw.once('close', () => {
      large -= 1
    })
  }
}
