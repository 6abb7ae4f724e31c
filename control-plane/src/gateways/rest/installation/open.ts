// Routes without a bearer token: health, the first set-up, and the agents' enrolment and renewal. They count by
// address, because callers have no other identity here.
import { VERSION } from '@berth/shared'
import {
  EnrollRequest,
  EnrollResponse,
  Health,
  LeaveRequest,
  LeaveResponse,
  RenewChallengeRequest,
  RenewChallengeResponse,
  RenewRequest,
  SetupRequest,
  SetupResponse,
} from '@berth/shared/api'
import { checkStore } from '../../../app/installation/health.ts'
import { completeSetup } from '../../../app/installation/setup.ts'
import {
  challengeRenewal,
  endLeavingAgent,
  enrolAgent,
  renewExpired,
} from '../../../app/servers/enrolment.ts'
import type { Context } from '../../../context.ts'
import { ENROLMENT } from '../../../limits/keys.ts'
import { time } from '../../serializers/fields.ts'
import type { Api } from '../http/api.ts'

export function openRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/health',
    {
      config: { needs: 'nothing', anyQuery: true }, // probes add a cache-busting parameter
      schema: {
        summary: 'Is it up, and is it set up',
        response: { 200: Health, 503: Health },
      },
    },
    async (_request, reply) => {
      const { status, setupRequired: setup_required } = await checkStore(ctx)
      const answer = { status, setup_required, version: VERSION, time: time(ctx.clock.now()) }
      if (status === 'ok') return answer
      return reply.code(503).header('retry-after', '5').send(answer)
    },
  )
  api.post(
    '/api/setup',
    {
      config: {
        needs: 'nothing',
        errors: ['setup_token_invalid', 'setup_done'],
        showsSecret: true,
      },
      schema: {
        summary: 'Make the first administrator and organization',
        body: SetupRequest,
        response: { 201: SetupResponse },
      },
    },
    async (request, reply) => {
      await ctx.quotas.narrow.setUps.take(request.ip)
      const from = { address: request.ip, requestId: request.id }
      const made = await completeSetup(ctx, { ...request.body, withToken: true }, from)
      if (made.token === undefined || made.expiresAt === undefined) throw new Error('unreachable')
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({
          user: made.user,
          organization: made.organization,
          token: made.token,
          expires_at: time(made.expiresAt),
        })
    },
  )
  agentRoutes(api, ctx)
}

function agentRoutes(api: Api, ctx: Context): void {
  const { joins } = ctx.quotas.narrow
  const bodyLimit = ENROLMENT.bodyBytes
  api.post(
    '/api/agent/enroll',
    {
      bodyLimit,
      config: { needs: 'nothing', errors: ['join_token_invalid', 'csr_invalid'] },
      schema: {
        summary: 'Join: a token and a certificate request become an identity',
        body: EnrollRequest,
        response: { 200: EnrollResponse },
      },
    },
    async (request) => {
      await joins.take(request.ip)
      return enrolAgent(ctx, request.body)
    },
  )
  api.post(
    '/api/agent/renew/challenge',
    {
      bodyLimit,
      config: { needs: 'nothing', errors: ['permission_denied'] },
      schema: {
        summary: 'A nonce for renewing an expired certificate',
        body: RenewChallengeRequest,
        response: { 200: RenewChallengeResponse },
      },
    },
    async (request) => {
      await joins.take(request.ip)
      const { nonce, expiresAt } = await challengeRenewal(ctx, request.body.certificate)
      return { nonce, expires_at: time(expiresAt) }
    },
  )
  api.post(
    '/api/agent/renew',
    {
      bodyLimit,
      config: { needs: 'nothing', errors: ['permission_denied', 'csr_invalid'] },
      schema: {
        summary: 'A new certificate in place of an expired one',
        body: RenewRequest,
        response: { 200: EnrollResponse },
      },
    },
    async (request) => {
      await joins.take(request.ip)
      return renewExpired(ctx, request.body)
    },
  )
  api.post(
    '/api/agent/leave',
    {
      bodyLimit,
      config: { needs: 'nothing', errors: ['permission_denied'] },
      schema: {
        summary: 'Berth was uninstalled from the server',
        body: LeaveRequest,
        response: { 200: LeaveResponse },
      },
    },
    async (request) => {
      await joins.take(request.ip)
      return endLeavingAgent(ctx, request.body)
    },
  )
}
