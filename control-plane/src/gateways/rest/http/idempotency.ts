// Handles Idempotency-Key on POST and PATCH of authenticated routes. Requests are compared by a keyed hash. Of a reply
// that showed a secret or belongs to variables, only its existence and what it created are stored. A repetition is
// authorized again before it learns anything; without a way to do that, no reply is stored.
import { createHmac, type KeyObject } from 'node:crypto'
import { AppError, REST } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { encodeFields } from '../../../app/core/audit-chain.ts'
import { beginRequest, finishRequest, replyOf } from '../../../app/core/idempotency.ts'
import { type About, KINDS, requireAccess } from '../../../app/core/replay-access.ts'
import { runInTurn, type Turn } from '../../../app/core/turns.ts'
import type { ByToken } from '../../../app/people/callers.ts'
import type { Context } from '../../../context.ts'
import type { Api } from './api.ts'
import { pathOf, queryOf } from './broken-requests.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Digest of the raw body; computed only if the request may be repeated. */
    bodyDigest: string
    turn: Turn | null
  }
}

const PRINTABLE = new RegExp(`^[\\x20-\\x7e]{1,${REST.idempotencyKeyChars}}$`)
const REPEATABLE = new Set(['POST', 'PATCH'])

export const mayRepeat = (request: FastifyRequest): boolean =>
  REPEATABLE.has(request.method) && request.headers['idempotency-key'] !== undefined

export function acceptRepeats(api: Api, ctx: Context): void {
  const [key] = ctx.secretStore.deriveKeys('compare requests')
  api.addHook('preValidation', (request, reply, done) => {
    if (!mayRepeat(request) || !request.who) return done()
    // a callback, so that the handler and all that it awaits belong to the turn
    takeTurn(request, request.who, reply).then((turn) => {
      request.turn = turn ?? null
      if (turn) runInTurn(turn, () => done())
    }, done)
  })
  async function takeTurn(request: FastifyRequest, who: ByToken, reply: FastifyReply) {
    const given = String(request.headers['idempotency-key'])
    if (!PRINTABLE.test(given)) {
      const most = REST.idempotencyKeyChars
      throw new AppError('invalid_header', `Idempotency-Key: 1 to ${most} printable characters.`)
    }
    const { userId } = who.caller
    const name = { userId, method: request.method, path: pathOf(request), key: given }
    const print = fingerprint(key as KeyObject, request)
    const begun = await beginRequest(ctx, name, print, createdBy(request))
    if ('turn' in begun) return begun.turn
    const about = aboutOf(request, begun.known.madeId)
    if (about) await requireAccess(ctx, who.caller, about)
    const { status, body, contentType, location } = replyOf(begun.known, print)
    if (location !== null) reply.header('location', location)
    if (contentType !== null) reply.type(contentType)
    reply.code(status).header('idempotent-replayed', 'true').send(body)
    return undefined
  }
  api.addHook('onSend', (request, reply, payload, done) => {
    const { turn } = request
    request.turn = null
    if (turn) return keepReply(request, turn, reply, payload)
    done(null, payload)
  })
  async function keepReply(
    request: FastifyRequest,
    turn: Turn,
    reply: FastifyReply,
    payload: unknown,
  ): Promise<unknown> {
    try {
      await finishRequest(ctx, turn, reply.statusCode, remembered(request, reply, payload))
    } catch (error) {
      // the change is committed and its reply is sent; only a repetition must wait
      ctx.log.error({ err: error, requestId: request.id }, 'a reply could not be remembered')
    }
    return payload
  }
}

/** What a POST to a list creates: `task` for /api/environments/:id/tasks. */
function createdBy({ method, routeOptions }: FastifyRequest): string | undefined {
  const last = routeOptions.url?.split('/').at(-1) ?? ''
  return method === 'POST' && /^[a-z]+s$/.test(last) ? last.slice(0, -1) : undefined
}

/** Derives the subject of a request from its route; undefined if access control does not cover it. */
function aboutOf(request: FastifyRequest, madeId: number | null): About | undefined {
  const { url = '', config } = request.routeOptions
  const [, , word, parameter] = url.split('/')
  const kind = KINDS.find((name) => name === word)
  if (!kind) return undefined
  const named = Number((request.params as { id?: unknown }).id)
  const id = parameter === ':id' ? (Number.isSafeInteger(named) ? named : 0) : madeId
  return { kind, id, needs: config.needs ?? 'token' }
}

const fingerprint = (key: KeyObject, request: FastifyRequest): string =>
  createHmac('sha256', key)
    .update(
      encodeFields([
        queryOf(request),
        String(request.headers['x-service-organization'] ?? ''),
        request.bodyDigest,
      ]),
    )
    .digest('hex')

function remembered(request: FastifyRequest, reply: FastifyReply, payload: unknown) {
  const status = reply.statusCode
  const { showsSecret = false, policy } = request.routeOptions.config
  const isVariables = policy === 'variables'
  if (status >= 500 || status === 429 || (isVariables && status >= 300)) return undefined
  const text = payload === null || payload === undefined ? '' : payload
  const isOpen = status < 300 && !aboutOf(request, null)
  const isSecret = (showsSecret && status < 300) || isVariables || isOpen
  const keeps = !isSecret && typeof text === 'string' && text.length <= REST.idempotencyReplyBytes
  const location = reply.getHeader('location')
  return {
    status,
    contentType: keeps ? String(reply.getHeader('content-type') ?? '') || null : null,
    location: typeof location === 'string' ? location : null,
    body: keeps ? text : null,
    madeId: typeof text === 'string' ? idIn(text) : null,
  }
}

function idIn(text: string): number | null {
  try {
    const { id } = JSON.parse(text) as { id?: unknown }
    return typeof id === 'number' && Number.isSafeInteger(id) ? id : null
  } catch {
    return null
  }
}
