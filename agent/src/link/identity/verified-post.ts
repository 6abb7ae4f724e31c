// One JSON request to the control plane's REST API, for join and renewal. No byte is sent before the peer is verified:
// https checks the chain and hostname against the system's roots, or against a CA named by its hash, which the
// presented chain must contain; plain http goes to loopback only. No redirects.
import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import * as tls from 'node:tls'
import { DAEMON, SESSION } from '@berth/shared'
import { certificateHash } from './certificate.ts'

/** The message is for the user at the terminal. */
export class RequestFailed extends Error {
  /** The same request may be retried. */
  readonly transient: boolean

  constructor(message: string, transient = false, options?: ErrorOptions) {
    super(message, options)
    this.name = 'RequestFailed'
    this.transient = transient
  }
}

export interface Answer {
  status: number
  /** Parsed JSON; undefined for any other body. */
  body: unknown
  /** The clock of the other side, as HTTP writes it. */
  date?: string | undefined
}

const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '')
const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

export function parseBaseUrl(text: string): URL {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new RequestFailed(`"${text}" is not an address. Give one like https://berth.example.com`)
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new RequestFailed(`${text}: only https addresses can be joined.`)
  }
  if (url.protocol === 'http:' && !isLoopback(hostOf(url))) {
    throw new RequestFailed(
      `${text} is plain http, and the join token would travel readable. Use https; http is for this machine only.`,
    )
  }
  return url
}

/** `caHashes` name CAs that are trusted beside the system's roots. */
export async function postJson(
  base: URL,
  path: string,
  body: unknown,
  caHashes: string[],
): Promise<Answer> {
  const url = new URL(`${base.href.replace(/\/+$/, '')}${path}`)
  const text = JSON.stringify(body)
  if (url.protocol === 'http:') return send(url, text, undefined)
  const roots = [...tls.getCACertificates('default'), ...tls.getCACertificates('system')]
  try {
    return await send(url, text, roots)
  } catch (error) {
    if (!isUntrusted(error)) throw error
  }
  const named = await findNamedCa(url, caHashes)
  return send(url, text, [named])
}

const UNTRUSTED = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_UNTRUSTED',
])
const causeCode = (error: unknown): string =>
  ((error as Error).cause as { code?: string } | undefined)?.code ?? ''
const isUntrusted = (error: unknown): boolean => UNTRUSTED.has(causeCode(error))

function send(url: URL, text: string, ca: string[] | undefined): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? https.request : http.request
    const call = request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        accept: 'application/json',
      },
      agent: false,
      signal: AbortSignal.timeout(DAEMON.enrolMs),
      ...(ca ? { ca, minVersion: 'TLSv1.2' as const } : {}),
    })
    const fail = (error: Error): void => reject(explain(url, error))
    call.on('error', fail)
    call.on('response', (response) => {
      const pieces: Buffer[] = []
      let size = 0
      response.on('error', fail)
      response.on('data', (piece: Buffer) => {
        size += piece.length
        if (size > DAEMON.enrolAnswerBytes) call.destroy(new Error('the answer is too long'))
        else pieces.push(piece)
      })
      response.on('end', () => {
        const status = response.statusCode ?? 0
        if (status >= 300 && status < 400) {
          const to = response.headers.location ?? 'another address'
          reject(new RequestFailed(`${url.origin} sends on to ${to}. Give that address instead.`))
        } else {
          const { date } = response.headers
          resolve({ status, body: parse(Buffer.concat(pieces)), date })
        }
      })
    })
    call.end(text)
  })
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}

/** Reads the presented chain without sending anything, and returns the CA that one of the hashes names. */
function findNamedCa(url: URL, caHashes: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const host = hostOf(url)
    const socket = tls.connect({
      host,
      port: Number(url.port || 443),
      // this connection sends and trusts nothing; the real request verifies against the CA found here
      rejectUnauthorized: false,
      ...(isIP(host) ? {} : { servername: host }),
      timeout: SESSION.dialMs,
    })
    const fail = (error: Error): void => {
      socket.destroy()
      reject(explain(url, error))
    }
    socket.on('error', fail)
    socket.on('timeout', () => fail(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })))
    socket.on('secureConnect', () => {
      let link: tls.DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
      for (let depth = 0; link && depth < 8; depth++) {
        if (link.raw && caHashes.includes(certificateHash(link.raw))) {
          socket.destroy()
          resolve(toPem(link.raw))
          return
        }
        link = link.issuerCertificate === link ? undefined : link.issuerCertificate
      }
      socket.destroy()
      reject(
        new RequestFailed(
          `The certificate of ${url.host} is signed neither by an authority this server knows nor by the one the join token names. Somebody may be between the two, or the token is for another installation. Nothing was sent.`,
        ),
      )
    })
  })
}

const toPem = (der: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${der
    .toString('base64')
    .replace(/.{64}/g, '$&\n')
    .trimEnd()}\n-----END CERTIFICATE-----\n`

function explain(url: URL, error: Error): RequestFailed {
  const code = (error as { code?: string }).code ?? ''
  const say = (text: string, transient = false): RequestFailed =>
    new RequestFailed(text, transient, { cause: error })
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return say(`The certificate of ${url.host} is for another name. Use the name it was made for.`)
  }
  if (code === 'CERT_HAS_EXPIRED') {
    return say(`The certificate of ${url.host} has expired, or this server's clock is wrong.`)
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return say(`${hostOf(url)} cannot be resolved. Check the address and this server's DNS.`, true)
  }
  if (code === 'ECONNREFUSED') {
    return say(`Nothing listens at ${url.host}. Check the address and port.`, true)
  }
  if (error.name === 'TimeoutError' || code === 'ETIMEDOUT' || code === 'ABORT_ERR') {
    return say(`No answer from ${url.host}. Check the address and the firewalls between.`, true)
  }
  if (code === 'EPROTO' || code.startsWith('ERR_SSL')) {
    return say(`${url.host} does not speak TLS. Check the address and port.`)
  }
  return say(`The request to ${url.host} failed: ${error.message}.`, code === 'ECONNRESET')
}
