// Requests by which the agent proves who it is over the REST API, without a session: is it still known (the doctor
// asks), and it leaves (the uninstaller says so). A signature over a one-use nonce proves possession of the key.
import { sign } from 'node:crypto'
import { leavingText } from '@berth/shared'
import { LeaveResponse, RenewChallengeResponse } from '@berth/shared/api'
import { certificateHash, parseCertificate } from './certificate.ts'
import { type Identity, IdentityError } from './identity.ts'
import { type Answer, parseBaseUrl, postJson } from './verified-post.ts'

const post = (identity: Identity, path: string, body: unknown): Promise<Answer> =>
  postJson(
    parseBaseUrl(identity.baseUrl),
    path,
    body,
    identity.ca.map((pem) => certificateHash(parseCertificate(pem).raw)),
  )

/** The control plane answered, and does not know this agent (any more). */
export class NotKnown extends IdentityError {
  override readonly name = 'NotKnown'
}

function accepted(answer: Answer): unknown {
  if (answer.status === 200) return answer.body
  const { detail } = (answer.body ?? {}) as { detail?: unknown }
  const why = typeof detail === 'string' ? detail.slice(0, 300) : `It answered ${answer.status}.`
  if (answer.status === 403) throw new NotKnown(why)
  throw new IdentityError(why)
}

/** The clock of the control plane minus ours; undefined if it did not say its time. */
export interface Greeting {
  nonce: string
  offsetMs: number | undefined
}

/** Throws NotKnown if the certificate was revoked, and another error if the control plane is away. */
export async function greet(identity: Identity): Promise<Greeting> {
  const { certificate } = identity
  const answer = await post(identity, '/api/agent/renew/challenge', { certificate })
  const { nonce } = RenewChallengeResponse.parse(accepted(answer))
  const at = Date.parse(answer.date ?? '')
  return { nonce, offsetMs: Number.isNaN(at) ? undefined : at - Date.now() }
}

/** Afterwards the certificate is worth nothing. */
export async function leave(identity: Identity): Promise<LeaveResponse> {
  const { nonce } = await greet(identity)
  const signature = sign('sha256', leavingText(nonce), identity.key).toString('base64url')
  const body = { certificate: identity.certificate, nonce, signature }
  return LeaveResponse.parse(accepted(await post(identity, '/api/agent/leave', body)))
}
