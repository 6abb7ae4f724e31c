// Reads the two settings of mail: the server's address and the sender. Messages are for the operator, say what the value
// must be, and never contain the password.
import { MAIL } from '../limits/installation.ts'

const ADDRESS =
  /^[^\s@<>()[\]\\,;:"\p{Cc}\u2028\u2029]{1,64}@[^\s@<>()[\]\\,;:"\p{Cc}\u2028\u2029]{1,253}$/u

export const isAddress = (text: string): boolean =>
  text.length <= MAIL.addressCharacters && ADDRESS.test(text)

interface SmtpOptions {
  host: string
  port: number
  secure: boolean
  requireTLS: boolean
  ignoreTLS: boolean
  auth?: { user: string; pass: string }
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

export function readSmtpUrl(text: string): SmtpOptions {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['smtp:', 'smtps:'].includes(url.protocol) || url.hostname === '') {
    throw new Error('must be smtp://user:password@host:587 or smtps://…')
  }
  if (url.search !== '' || url.hash !== '' || !['', '/'].includes(url.pathname)) {
    throw new Error('must be an address without a path and options, because TLS is always checked')
  }
  const secure = url.protocol === 'smtps:'
  const local = LOOPBACK.test(url.hostname)
  return {
    host: url.hostname.replaceAll(/[[\]]/g, ''),
    port: Number(url.port) || (secure ? 465 : 587),
    secure,
    requireTLS: !secure && !local,
    ignoreTLS: !secure && local, // a relay on this machine has no name that a certificate could prove
    ...(url.username ? { auth: { user: decode(url.username), pass: decode(url.password) } } : {}),
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Error('must be an address with a percent-encoded user and password (% becomes %25)')
  }
}

/** "Berth <berth@example.com>" or the address alone. */
export function readSender(text: string): { name: string; address: string } {
  const [, name = '', inside] = /^([^<>\p{Cc}"]*)<([^<>]+)>$/u.exec(text.trim()) ?? []
  const address = inside ?? text.trim()
  if (!isAddress(address)) {
    throw new Error('must be an address such as Berth <berth@example.com>')
  }
  return { name: name.trim(), address }
}

export const checkSmtpUrl = (text: string): void => void readSmtpUrl(text)
export const checkSender = (text: string): void => void readSender(text)
