// What a new server fetches: the install script and the packaged agent. No token is needed, because both are public;
// the digest in the join command verifies the script.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { AppError } from '@berth/shared'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { installScript, listAgentPackages } from '../../../app/servers/agent-packages.ts'
import type { Context } from '../../../context.ts'
import { RateLimit } from '../../../identity/rate-limit.ts'
import type { Api } from '../http/api.ts'

const notPackaged = (): AppError =>
  new AppError(
    'not_found',
    "No agent is packaged on this control plane. Run 'npm run bundle' where it is installed, or run the agent from a checkout.",
  )

const NameParams = z.object({ name: z.string().max(64) })

export function installRoutes(api: Api, ctx: Context): void {
  const config = { needs: 'nothing' as const, errors: ['not_found' as const], anyQuery: true }
  const downloads = new RateLimit(
    ctx.config.downloadsPerMinute,
    () => ctx.clock.now(),
    'BERTH_DOWNLOADS_PER_MINUTE',
  )
  api.get(
    '/install.sh',
    {
      config,
      schema: {
        summary: 'The script that installs an agent',
        response: { 200: { content: { 'text/x-shellscript': { schema: z.string() } } } },
      },
    },
    async (_request, reply) => {
      const script = await installScript(ctx)
      if (!script) throw notPackaged()
      const digest = createHash('sha256').update(script).digest('base64url')
      return reply
        .type('text/x-shellscript; charset=utf-8')
        .header('etag', `"${digest}"`)
        .header('cache-control', 'no-cache')
        .send(script)
    },
  )
  api.get(
    '/install/:name',
    {
      config,
      schema: {
        summary: 'A packaged agent',
        params: NameParams,
        response: { 200: { content: { 'application/gzip': { schema: z.string() } } } },
      },
    },
    async (request, reply) => {
      downloads.take(request.ip)
      const packages = await listAgentPackages(ctx)
      const found = packages.find(({ name }) => name === request.params.name)
      if (!found) throw packages.length === 0 ? notPackaged() : noSuch()
      const answer: FastifyReply = reply
      return answer
        .type('application/gzip')
        .header('content-length', found.bytes)
        .header('etag', `"${found.sha256}"`)
        .send(createReadStream(found.path))
    },
  )
}

const noSuch = (): AppError => new AppError('not_found', 'There is no such package here.')
