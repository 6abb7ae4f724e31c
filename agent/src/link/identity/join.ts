// `berth-agent join <url> <token>`: a new key, one REST call with a one-use token, and an identity on disk. Uses no
// trust on first use: the token names the agents' CA by its hash, and an answer without that CA is rejected.
import { hostname } from 'node:os'
import { DAEMON, VERSION } from '@berth/shared'
import { type EnrollRequest, EnrollResponse } from '@berth/shared/api'
import type { AgentSettings } from '../../settings.ts'
import {
  certificateHash,
  checkCertificate,
  createKeyRequest,
  type KeyRequest,
  parseCertificate,
} from './certificate.ts'
import {
  IdentityError,
  isJoined,
  type NewIdentity,
  readIdentity,
  readInstallId,
  writeIdentity,
} from './identity.ts'
import { greet, NotKnown } from './leave.ts'
import { type Answer, parseBaseUrl, postJson, RequestFailed } from './verified-post.ts'

interface JoinToken {
  tokenId: string
  caHash: string
}

const TOKEN = /^berth_join_([A-Za-z0-9_-]{12})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})$/

export function parseJoinToken(text: string): JoinToken {
  const match = TOKEN.exec(text.trim())
  if (!match?.[1] || !match[3]) {
    throw new IdentityError(
      'This is not a join token. It begins with berth_join_ and has three parts separated by dots: copy the whole command from the server page.',
    )
  }
  return { tokenId: match[1], caHash: match[3] }
}

interface JoinOptions {
  url: string
  token: string
  force: boolean
}

export async function join(settings: AgentSettings, options: JoinOptions): Promise<NewIdentity> {
  const token = parseJoinToken(options.token)
  const base = parseBaseUrl(options.url)
  if (isJoined(settings) && !options.force) {
    throw new IdentityError(
      'This server has joined already. To leave the former identity behind, stop berth-agent and join with --force.',
    )
  }
  const request = await createKeyRequest()
  const body: EnrollRequest = {
    token: options.token.trim(),
    csr: request.csrPem,
    install_id: readInstallId(settings),
    host: {
      hostname: hostname().slice(0, 253),
      os: process.platform,
      arch: process.arch,
      agent_version: VERSION,
    },
  }
  const answer = await askOften(base, body, token.caHash)
  const identity = readAnswer(answer, { base, request, caHash: token.caHash })
  writeIdentity(settings, identity, true)
  return identity
}

/** Whether this server has joined the control plane at `url`, which still knows it. Throws if that cannot be told. */
export async function isMember(settings: AgentSettings, url: string): Promise<boolean> {
  if (!isJoined(settings)) return false
  const identity = readIdentity(settings)
  if (identity.baseUrl !== parseBaseUrl(url).href) {
    throw new IdentityError(
      `This server has joined ${identity.baseUrl}. Remove it there first (berth-agent uninstall), or replace its identity: berth-agent join --force ${url}`,
    )
  }
  try {
    await greet(identity)
    return true
  } catch (error) {
    if (error instanceof NotKnown) return false
    throw error
  }
}

/** A lost answer may be requested again with the same key. */
async function askOften(base: URL, body: EnrollRequest, caHash: string): Promise<Answer> {
  for (let tries = 1; ; tries++) {
    try {
      return await postJson(base, '/api/agent/enroll', body, [caHash])
    } catch (error) {
      const again = error instanceof RequestFailed && error.transient && isLostAnswer(error)
      if (!again || tries >= DAEMON.enrolTries) throw error
    }
  }
}

const isLostAnswer = (error: Error): boolean =>
  (error.cause as { code?: string } | undefined)?.code === 'ECONNRESET'

function readAnswer(
  answer: Answer,
  asked: { base: URL; request: KeyRequest; caHash: string },
): NewIdentity {
  if (answer.status !== 200) throw new IdentityError(explainRefusal(answer, asked.base))
  const parsed = EnrollResponse.safeParse(answer.body)
  if (!parsed.success) {
    throw new IdentityError(
      `${asked.base.origin} answered, but not like a Berth control plane. Check the address.`,
    )
  }
  const { data } = parsed
  if (!data.ca.some((pem) => hashOfPem(pem) === asked.caHash)) {
    throw new IdentityError(
      'The control plane did not show the authority that the join token names. Everything it sent was thrown away; make a new token and check the address.',
    )
  }
  const problem = checkCertificate(data.certificate, asked.request.key, data.ca)
  if (problem) {
    throw new IdentityError(`The control plane sent a certificate that is not ours: ${problem}.`)
  }
  if (data.endpoints.length === 0) {
    throw new IdentityError('The control plane named no address for agents. Check its settings.')
  }
  return {
    agentId: data.agent_id,
    serverId: data.server_id,
    baseUrl: asked.base.href,
    endpoints: data.endpoints,
    generation: data.generation,
    renewAt: data.renew_at,
    sshUserCaKeys: data.ssh_user_ca_keys,
    key: asked.request.key,
    certificate: data.certificate,
    ca: data.ca,
  }
}

function hashOfPem(pem: string): string | undefined {
  try {
    return certificateHash(parseCertificate(pem).raw)
  } catch {
    return undefined
  }
}

function explainRefusal(answer: Answer, base: URL): string {
  const problem = (answer.body ?? {}) as { code?: unknown; detail?: unknown }
  const detail = typeof problem.detail === 'string' ? problem.detail.slice(0, 500) : ''
  switch (problem.code) {
    case 'join_token_invalid':
      return 'The join token is not valid: it was used before, is older than 15 minutes or was replaced by a newer one. Make a new one on the server page.'
    case 'csr_invalid':
      return `The control plane refused this agent's key. ${detail}`.trim()
    case 'rate_limited':
      return 'Too many tries from this address. Wait a minute and run the command again.'
  }
  if (typeof problem.code === 'string') {
    return `The control plane refused: ${detail || problem.code} (${answer.status}).`
  }
  return answer.status >= 500
    ? `${base.origin} answered with an error (${answer.status}). Try again later.`
    : `${base.origin} is no Berth control plane (it answered ${answer.status}). Check the address.`
}
