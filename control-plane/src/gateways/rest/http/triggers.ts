// Reads what started a task from the client's own claim, which informs and never authorises.
import type { Trigger } from '@berth/shared'
import type { FastifyRequest } from 'fastify'

export function triggerOf(request: FastifyRequest): Trigger {
  const client = String(request.headers['berth-client'] ?? '')
  if (client.startsWith('cli/')) return 'cli'
  return client.startsWith('mcp/') ? 'mcp' : 'api'
}
