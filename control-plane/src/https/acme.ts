// Orders one certificate from an ACME authority (RFC 8555) by a file at port 80. A refusal has the authority's own
// words and the type of the error, so that people learn what to do.
import { Agent } from 'node:https'
import { getCACertificates } from 'node:tls'
import type { Refusal } from '../domain/installation/certificate.ts'
import { HTTPS } from '../limits/installation.ts'
import type { AcmeAccount, TlsFiles } from './files.ts'

export class AcmeRefused extends Error {
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.detail)
    this.refusal = refusal
  }
}

interface Order {
  directory: string
  domain: string
  email: string | undefined
  files: TlsFiles
  /** Shown at /.well-known/acme-challenge/ while the authority looks. */
  challenges: Map<string, string>
}

type Library = typeof import('acme-client')

const PROBLEM = 'urn:ietf:params:acme:error:'

interface Problem {
  type?: unknown
  detail?: unknown
}

/** The answers of the authority, and the last refusal among them. The library keeps only its sentence. */
class Conversation {
  refusal: Refusal | undefined

  hear(data: unknown, headers: Record<string, unknown>): void {
    const { challenges, error, ...own } = Object(data) as Problem & {
      challenges?: { error?: Problem }[]
      error?: Problem
    }
    const failed = Array.isArray(challenges)
      ? challenges.find((one) => one.error)?.error
      : undefined
    const { type, detail } = failed ?? error ?? own
    if (typeof type !== 'string' || !type.startsWith(PROBLEM)) return
    const seconds = Number(headers['retry-after'])
    this.refusal = {
      type: type.slice(PROBLEM.length),
      detail: String(detail ?? type).slice(0, HTTPS.messageCharacters),
      ...(seconds > 0 ? { waitMs: seconds * 1_000 } : {}),
    }
  }

  explain(error: unknown): AcmeRefused {
    const { code, message } = error as { code?: string; message?: string }
    const isNetwork = typeof code === 'string' && !code.startsWith('ERR_BAD')
    if (isNetwork) return new AcmeRefused({ type: 'unreachable', detail: code })
    const detail = String(message ?? error).slice(0, HTTPS.messageCharacters)
    return new AcmeRefused(this.refusal ?? { type: undefined, detail })
  }
}

/**
 * Its own handlers wait and try again for minutes, and lose the reason of a failed connection; our back-off replaces
 * them. Authorities of the machine are trusted too, for installations with one of their own.
 */
function prepare(acme: Library, talk: Conversation): void {
  const { defaults, interceptors } = acme.axios
  interceptors.request.clear()
  interceptors.response.clear()
  interceptors.response.use((response) => {
    talk.hear(response.data, response.headers)
    return response
  })
  const ca = [...getCACertificates('default'), ...getCACertificates('system')]
  defaults.httpsAgent = new Agent({ ca })
  defaults.timeout = HTTPS.requestMs
  defaults.maxContentLength = HTTPS.answerBytes
  defaults.maxRedirects = 0
}

/** Stores the account before it is used, so that a second try has the same one. */
async function openAccount(acme: Library, order: Order) {
  const { directory, files, email } = order
  const stored = files.readAccount(directory)
  const account: AcmeAccount = stored ?? {
    directory,
    keyPem: (await acme.crypto.createPrivateEcdsaKey('P-256')).toString(),
    url: undefined,
  }
  if (!stored) files.writeAccount(account)
  const client = new acme.Client({
    directoryUrl: directory,
    accountKey: account.keyPem,
    ...(account.url === undefined ? {} : { accountUrl: account.url }),
    backoffAttempts: HTTPS.polls,
    backoffMin: HTTPS.pollMs,
    backoffMax: HTTPS.longestPollMs,
  })
  if (account.url === undefined) {
    const contact = email === undefined ? {} : { contact: [`mailto:${email}`] }
    await client.createAccount({ termsOfServiceAgreed: true, ...contact })
    files.writeAccount({ ...account, url: client.getAccountUrl() })
  }
  return client
}

type Client = Awaited<ReturnType<typeof openAccount>>

async function answerChallenges(
  client: Client,
  order: Awaited<ReturnType<Client['createOrder']>>,
  challenges: Order['challenges'],
): Promise<void> {
  for (const authorization of await client.getAuthorizations(order)) {
    if (authorization.status === 'valid') continue
    const challenge = authorization.challenges.find(({ type }) => type === 'http-01')
    if (!challenge) throw new Error('the authority offers no check by a file at port 80')
    challenges.set(challenge.token, await client.getChallengeKeyAuthorization(challenge))
    try {
      await client.completeChallenge(challenge)
      await client.waitForValidStatus(authorization)
    } finally {
      challenges.delete(challenge.token)
    }
  }
}

/** Throws AcmeRefused. */
export async function orderCertificate(
  order: Order,
): Promise<{ keyPem: string; chainPem: string }> {
  const acme = await import('acme-client') // only installations with a domain need it
  const talk = new Conversation()
  prepare(acme, talk)
  try {
    const client = await openAccount(acme, order)
    const identifiers = [{ type: 'dns', value: order.domain }]
    const placed = await client.createOrder({ identifiers })
    await answerChallenges(client, placed, order.challenges)
    const keyPem = await acme.crypto.createPrivateEcdsaKey('P-256')
    const [, csr] = await acme.crypto.createCsr({ altNames: [order.domain] }, keyPem)
    const final = await client.finalizeOrder(placed, csr)
    const chainPem = await client.getCertificate(final)
    return { keyPem: keyPem.toString(), chainPem }
  } catch (error) {
    const refused = talk.explain(error)
    // the authority forgot the account: the next try opens it again, with the same key
    const account = order.files.readAccount(order.directory)
    if (refused.refusal.type === 'accountDoesNotExist' && account) {
      order.files.writeAccount({ ...account, url: undefined })
    }
    throw refused
  }
}
