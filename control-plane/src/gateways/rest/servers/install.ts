// What a new server fetches: the install script and the packaged agent. What a person's machine fetches: the script and
// the client. No token is needed, because all of it is public; the digest in the join command verifies the server's script.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { AppError } from '@berth/shared'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import {
  clientScript,
  findClient,
  installScript,
  listAgentPackages,
} from '../../../app/servers/agent-packages.ts'
import type { Context } from '../../../context.ts'
import { CLIENT_FILE } from '../../../domain/servers/client-script.ts'
import type { Api } from '../http/api.ts'

const notPackaged = (): AppError =>
  new AppError(
    'not_found',
    "No agent is packaged on this control plane. Run 'npm run bundle' where it is installed, or run the agent from a checkout.",
  )

const noClient = (): AppError =>
  new AppError(
    'not_found',
    "This control plane has no client to offer. Run 'npm run bundle' where it is installed, or take the client from a release.",
  )

const NameParams = z.object({ name: z.string().max(64) })

export function installRoutes(api: Api, ctx: Context): void {
  const config = { needs: 'nothing' as const, errors: ['not_found' as const], anyQuery: true }
  const { packageDownloads: downloads } = ctx.quotas.narrow
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
      return sendScript(reply, script)
    },
  )
  api.get(
    '/install-cli.sh',
    {
      config,
      schema: {
        summary: 'The script that installs the client',
        response: { 200: { content: { 'text/x-shellscript': { schema: z.string() } } } },
      },
    },
    async (_request, reply) => {
      const script = await clientScript(ctx)
      if (!script) throw noClient()
      return sendScript(reply, script)
    },
  )
  api.get(
    '/cli/:name',
    {
      config,
      schema: {
        summary: 'The client, or its checksum',
        params: NameParams,
        response: {
          200: {
            content: {
              'application/octet-stream': { schema: z.string() },
              'text/plain': { schema: z.string() },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      if (name !== CLIENT_FILE && name !== 'SHA256SUMS') throw noSuch()
      const client = await findClient(ctx)
      if (!client) throw noClient()
      const answer: FastifyReply = reply
      if (name === 'SHA256SUMS') {
        return answer.type('text/plain; charset=utf-8').send(`${client.sha256}  ${CLIENT_FILE}\n`)
      }
      await downloads.take(request.ip)
      return answer
        .type('application/octet-stream')
        .header('content-disposition', `attachment; filename="${CLIENT_FILE}"`)
        .header('content-length', client.bytes)
        .header('etag', `"${client.sha256}"`)
        .send(createReadStream(client.path))
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
      await downloads.take(request.ip)
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

function sendScript(reply: FastifyReply, script: string): FastifyReply {
  const digest = createHash('sha256').update(script).digest('base64url')
  return reply
    .type('text/x-shellscript; charset=utf-8')
    .header('etag', `"${digest}"`)
    .header('cache-control', 'no-cache')
    .send(script)
}

const noSuch = (): AppError => new AppError('not_found', 'There is no such package here.')
