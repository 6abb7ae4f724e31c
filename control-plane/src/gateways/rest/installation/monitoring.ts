// What monitoring asks: is the process alive, may it get requests, and its figures. /metrics needs the token of the
// settings and does not exist without one: figures tell strangers how much an installation is used.
import { createHash, timingSafeEqual } from 'node:crypto'
import { AppError } from '@berth/shared'
import { z } from 'zod'
import { checkStore } from '../../../app/installation/health.ts'
import type { Context } from '../../../context.ts'
import type { Api } from '../http/api.ts'
import { countBadToken } from '../http/quotas.ts'

/** Undefined: ready. With a full disk too, because reads go on; /api/health reports that. */
async function describeUnready(ctx: Context): Promise<string | undefined> {
  if (ctx.replicas.isDraining) return 'It is stopping.'
  const { status } = await checkStore(ctx)
  if (status === 'unavailable') return 'The database does not answer.'
  return ctx.replicas.isReady ? undefined : 'Its lease could not be renewed.'
}

const Text = z.string()
const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

export function monitoringRoutes(api: Api, ctx: Context): void {
  const config = { needs: 'nothing' as const, anyQuery: true }
  api.get(
    '/health/live',
    {
      config,
      schema: {
        summary: 'The process answers; restart it if it does not',
        response: { 200: { content: { 'text/plain': { schema: Text } } } },
      },
    },
    async (_request, reply) => reply.type('text/plain').send('ok\n'),
  )
  api.get(
    '/health/ready',
    {
      config,
      schema: {
        summary: 'It can serve: the database answers, its lease is valid, and it is not stopping',
        response: {
          200: { content: { 'text/plain': { schema: Text } } },
          503: { content: { 'text/plain': { schema: Text } } },
        },
      },
    },
    async (_request, reply) => {
      const why = await describeUnready(ctx)
      return reply
        .code(why === undefined ? 200 : 503)
        .type('text/plain')
        .send(`${why ?? 'ok'}\n`)
    },
  )
  api.get(
    '/metrics',
    {
      config: { ...config, errors: ['token_invalid'] },
      schema: {
        summary: 'Figures in the format of Prometheus, for the token of BERTH_METRICS_TOKEN',
        response: { 200: { content: { 'text/plain': { schema: Text } } } },
      },
    },
    async (request, reply) => {
      const { metricsToken } = ctx.config
      if (metricsToken === undefined) {
        throw new AppError('not_found', 'Figures are off. BERTH_METRICS_TOKEN switches them on.')
      }
      const given = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
      if (!timingSafeEqual(digest(given), digest(metricsToken))) {
        await countBadToken(ctx, request)
        throw new AppError(
          'token_invalid',
          'Send the token of BERTH_METRICS_TOKEN as a bearer token.',
        )
      }
      const { registry } = ctx.metrics
      return reply.type(registry.contentType).send(await registry.metrics())
    },
  )
}
