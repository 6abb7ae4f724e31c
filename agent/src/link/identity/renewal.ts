// A new certificate for the same agent. While the old one is valid, a call on the session's own connection. After it
// expired (the server was off), a REST call that proves possession of the old key by a signature over a one-use nonce.
// Both use a new key and a new generation, and move `current` at the end.
import { sign } from 'node:crypto'
import { renewalText, SESSION } from '@berth/shared'
import { EnrollResponse, RenewChallengeResponse } from '@berth/shared/api'
import type { AgentService, ServiceClient } from '@berth/shared/wire'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { AgentSettings } from '../../settings.ts'
import {
  certificateHash,
  checkCertificate,
  createKeyRequest,
  parseCertificate,
} from './certificate.ts'
import {
  type Identity,
  IdentityError,
  type NewIdentity,
  readIdentity,
  writeIdentity,
} from './identity.ts'
import { type Answer, parseBaseUrl, postJson } from './verified-post.ts'

export type AgentClient = ServiceClient<(typeof AgentService)['method']>

/** Over the live connection; returns the generation that is now current. */
export async function renewByCall(
  settings: AgentSettings,
  identity: Identity,
  client: AgentClient,
): Promise<NewIdentity> {
  const request = await createKeyRequest()
  const answer = await new Promise<Parameters<Parameters<typeof client.renewCertificate>[2]>[1]>(
    (resolve, reject) => {
      client.renewCertificate(
        {
          $typeName: 'berth.agent.v1.RenewCertificateRequest',
          csrDer: request.csrDer,
          generation: BigInt(identity.generation),
        },
        { deadline: Date.now() + SESSION.unaryMs },
        (error, value) => (error ? reject(error) : resolve(value)),
      )
    },
  )
  if (!answer) throw new IdentityError('The control plane gave no certificate.')
  const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8')
  return keep(settings, identity, {
    key: request.key,
    certificate: text(answer.certificatePem),
    ca: answer.caPem.length > 0 ? answer.caPem.map(text) : identity.ca,
    generation: Number(answer.generation),
    renewAt: answer.renewAt ? timestampDate(answer.renewAt).toISOString() : identity.renewAt,
  })
}

/**
 * Moves the agent to another address of the control plane, which proves its identity as usual, issues a certificate and
 * names the address that agents dial now. Needs no join token, because the agent's key identifies it.
 */
export const move = (settings: AgentSettings, url: string): Promise<NewIdentity> =>
  renewExpired(settings, { ...readIdentity(settings), baseUrl: parseBaseUrl(url).href })

/** Through the REST API, with the expired certificate and its key. */
export async function renewExpired(
  settings: AgentSettings,
  identity: Identity,
): Promise<NewIdentity> {
  const base = parseBaseUrl(identity.baseUrl)
  const believed = identity.ca.map((pem) => certificateHash(parseCertificate(pem).raw))
  const { certificate } = identity
  const challenge = RenewChallengeResponse.parse(
    accepted(await postJson(base, '/api/agent/renew/challenge', { certificate }, believed)),
  )
  const request = await createKeyRequest()
  const csr = request.csrPem
  const signature = sign('sha256', renewalText(challenge.nonce, csr), identity.key)
  const asked = {
    certificate,
    csr,
    nonce: challenge.nonce,
    signature: signature.toString('base64url'),
  }
  const answer = EnrollResponse.parse(
    accepted(await postJson(base, '/api/agent/renew', asked, believed)),
  )
  return keep(settings, identity, {
    key: request.key,
    certificate: answer.certificate,
    ca: answer.ca,
    generation: answer.generation,
    renewAt: answer.renew_at,
    endpoints: answer.endpoints,
  })
}

function accepted(answer: Answer): unknown {
  if (answer.status === 200) return answer.body
  const { code, detail } = (answer.body ?? {}) as { code?: unknown; detail?: unknown }
  throw new IdentityError(
    `The control plane did not renew the certificate (${answer.status} ${String(code ?? '')}). ${
      typeof detail === 'string' ? detail.slice(0, 500) : ''
    } If it stays so, join again with a new token: berth-agent join --force <url> <token>`,
  )
}

type Renewed = Pick<NewIdentity, 'key' | 'certificate' | 'ca' | 'generation' | 'renewAt'> &
  Partial<Pick<NewIdentity, 'endpoints'>>

/** The already trusted CAs verify the new certificate, so an answer cannot bring its own CA. */
function keep(settings: AgentSettings, identity: Identity, renewed: Renewed): NewIdentity {
  const problem = checkCertificate(renewed.certificate, renewed.key, identity.ca)
  if (problem) {
    throw new IdentityError(`The control plane sent a certificate that is not ours: ${problem}.`)
  }
  const { trustGeneration: _, ...former } = identity
  const next: NewIdentity = { ...former, ...renewed }
  writeIdentity(settings, next)
  return next
}
