// Sends mail over SMTP, or in development as files and on the console. Only this file imports nodemailer. Recipients
// are values, never header text; nothing is fetched for a mail. Over a network, the connection must be encrypted and
// the server's certificate valid, or nothing is sent.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import type { MailConfig } from '../config.ts'
import { MAIL } from '../limits/installation.ts'
import { isAddress, readSender, readSmtpUrl } from './smtp-url.ts'

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

const connect = (url: string, { connectMs, sendMs }: { connectMs: number; sendMs: number }) =>
  createTransport({
    ...readSmtpUrl(url),
    tls: { minVersion: 'TLSv1.2', rejectUnauthorized: true },
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    socketTimeout: sendMs,
    dnsTimeout: connectMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })

/** Connects, and signs in if the address has a user; sends nothing. */
export async function tryMailServer(url: string, waitMs: number): Promise<void> {
  const transport = connect(url, { connectMs: waitMs, sendMs: waitMs })
  try {
    await transport.verify()
  } finally {
    transport.close()
  }
}

function smtpMailer(url: string, sender: string): Mailer {
  const from = readSender(sender)
  const transport = connect(url, MAIL)
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
