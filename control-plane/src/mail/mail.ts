// Sends mail over SMTP, or in development as files and on the console. Only this file imports nodemailer. Recipients
// are values, never header text; nothing is fetched for a mail. Over a network, the connection must be encrypted and
// the server's certificate valid, or nothing is sent.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import type { MailConfig } from '../config.ts'
import { MAIL } from '../limits/installation.ts'

interface Letter {
  /** The same for every try, so that a recipient can recognize a duplicate. */
  messageId: string
  /** File name, when mails become files. */
  name: string
  to: string
  subject: string
  text: string
}

export interface Mailer {
  send(letter: Letter): Promise<void>
  close(): void
}

/** The receiving server refused this address, so a retry will not help. */
export class RefusedForGood extends Error {}

const ADDRESS =
  /^[^\s@<>()[\]\\,;:"\p{Cc}\u2028\u2029]{1,64}@[^\s@<>()[\]\\,;:"\p{Cc}\u2028\u2029]{1,253}$/u

const isAddress = (text: string): boolean =>
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

/** Parses BERTH_SMTP_URL; error messages are for the operator and never contain the password. */
export function readSmtpUrl(text: string): SmtpOptions {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['smtp:', 'smtps:'].includes(url.protocol) || url.hostname === '') {
    throw new Error('BERTH_SMTP_URL must be smtp://user:password@host:587 or smtps://….')
  }
  if (url.search !== '' || url.hash !== '' || !['', '/'].includes(url.pathname)) {
    throw new Error('BERTH_SMTP_URL takes no path and no options: TLS is always checked.')
  }
  const secure = url.protocol === 'smtps:'
  const local = LOOPBACK.test(url.hostname)
  return {
    host: url.hostname.replaceAll(/[[\]]/g, ''),
    port: Number(url.port) || (secure ? 465 : 587),
    secure,
    requireTLS: !secure && !local,
    ignoreTLS: !secure && local, // a relay on this machine has no name that a certificate could prove
    ...(url.username
      ? { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }
      : {}),
  }
}

/** "Berth <berth@example.com>" or the address alone. */
export function readSender(text: string): { name: string; address: string } {
  const [, name = '', inside] = /^([^<>\p{Cc}"]*)<([^<>]+)>$/u.exec(text.trim()) ?? []
  const address = inside ?? text.trim()
  if (!isAddress(address)) {
    throw new Error('BERTH_MAIL_FROM must be an address such as Berth <berth@example.com>.')
  }
  return { name: name.trim(), address }
}

export function openMailer(config: MailConfig, dir: string, print: (text: string) => void): Mailer {
  switch (config.kind) {
    case 'smtp':
      return smtpMailer(config.url, config.from)
    case 'files':
      return fileMailer(dir, print)
    case 'none':
      return {
        send: () => Promise.reject(new Error('No mail server is configured: set BERTH_SMTP_URL.')),
        close: () => {},
      }
  }
}

function smtpMailer(url: string, sender: string): Mailer {
  const from = readSender(sender)
  const transport = createTransport({
    ...readSmtpUrl(url),
    tls: { minVersion: 'TLSv1.2', rejectUnauthorized: true },
    connectionTimeout: MAIL.connectMs,
    greetingTimeout: MAIL.connectMs,
    socketTimeout: MAIL.sendMs,
    dnsTimeout: MAIL.connectMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send({ messageId, to, subject, text }) {
      if (!isAddress(to)) throw new RefusedForGood('This is no mail address.')
      try {
        await transport.sendMail({
          envelope: { from: from.address, to: [to] },
          messageId,
          from,
          to: { name: '', address: to },
          subject,
          text,
          headers: { 'Auto-Submitted': 'auto-generated' },
        })
      } catch (error) {
        const { code, responseCode } = error as { code?: string; responseCode?: number }
        if (code === 'EENVELOPE' && (responseCode ?? 0) >= 500) {
          throw new RefusedForGood(error instanceof Error ? error.message : String(error))
        }
        throw error
      }
    },
    close: () => transport.close(),
  }
}

/** Writes one file per mail, readable only by us; keeps the newest. */
function fileMailer(dir: string, print: (text: string) => void): Mailer {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  return {
    async send({ name, to, subject, text }) {
      if (!isAddress(to)) throw new RefusedForGood('This is no mail address.')
      const letter = `To: ${to}\nSubject: ${subject}\n\n${text}`
      writeFileSync(join(dir, `${name}.txt`), letter, { mode: 0o600 })
      const names = readdirSync(dir).sort()
      for (const old of names.slice(0, Math.max(0, names.length - MAIL.keptFiles))) {
        rmSync(join(dir, old), { force: true })
      }
      print(`Mail (no mail server is configured):\n${letter}`)
    },
    close: () => {},
  }
}
