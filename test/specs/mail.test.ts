// Email notifications: sent over a real SMTP connection, once, complete, only to their recipients. Also covers a mail
// server that is offline, refuses, or does not exist.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { SMTPServer } from 'smtp-server'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { change, MAIL_TOPIC } from '../../control-plane/src/app/core/transaction.ts'
import { type Mail, mailPlace, queueMail } from '../../control-plane/src/app/people/mail.ts'
import { sendDueMails } from '../../control-plane/src/app/people/mailing.ts'
import { MAIL } from '../../control-plane/src/limits/installation.ts'
import { openMailer } from '../../control-plane/src/mail/mail.ts'
import { readSender, readSmtpUrl } from '../../control-plane/src/mail/smtp-url.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

interface Received {
  from: string
  to: string[]
  raw: string
}

/** A mail server that keeps what it receives; `refuse` answers recipients, `hold` delays data. */
class MailServer {
  readonly received: Received[] = []
  refuse: ((address: string) => Error | undefined) | undefined
  hold: Promise<void> | undefined
  waiting = 0
  readonly #server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onRcptTo: (address, _session, done) => done(this.refuse?.(address.address)),
    onData: (stream, session, done) => {
      let raw = ''
      stream.on('data', (d) => {
        raw += d
      })
      stream.on('end', async () => {
        this.waiting += 1
        await this.hold
        const from = session.envelope.mailFrom ? session.envelope.mailFrom.address : ''
        this.received.push({ from, to: session.envelope.rcptTo.map((r) => r.address), raw })
        done()
      })
    },
  })
  port = 0

  async listen(port = 0): Promise<void> {
    this.#server.on('error', () => {}) // clients that disconnect in the middle
    await new Promise<void>((resolve) => this.#server.listen(port, '127.0.0.1', resolve))
    this.port = (this.#server.server.address() as AddressInfo).port
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }
}

const headersOf = (raw: string): string[] =>
  (raw.split('\r\n\r\n')[0] ?? '').replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')
const header = (raw: string, name: string): string[] =>
  headersOf(raw).filter((h) => h.toLowerCase().startsWith(`${name.toLowerCase()}:`))

describe.each(ENGINES)('mail on %s', (engine) => {
  let server: MailServer
  let cp: TestControlPlane
  const logged: string[] = []
  beforeAll(async () => {
    server = new MailServer()
    await server.listen()
    cp = await TestControlPlane.start(engine, {
      logTo: (line) => logged.push(line),
      config: {
        mail: {
          kind: 'smtp',
          url: `smtp://127.0.0.1:${server.port}`,
          from: 'Berth <berth@example.com>',
        },
      },
    })
  })
  afterEach(() => {
    server.received.length = 0
    server.refuse = undefined
    server.hold = undefined
  })
  afterAll(async () => {
    await cp.close()
    await server.close()
  })

  const ctx = () => cp.running.ctx
  const queue = (mail: Partial<Mail> = {}) =>
    change(ctx(), (c) =>
      queueMail(ctx(), c, {
        kind: 'alert',
        to: 'ada@example.com',
        subject: 'Subject',
        text: 'Text\n',
        ...mail,
      }),
    )
  const row = (id: number) =>
    ctx().db.selectFrom('mails').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const arrived = (count = 1) =>
    until(`${count} mails`, () => (server.received.length >= count ? server.received : undefined))
  const tried = (id: number, tries: number) =>
    until(`try ${tries}`, async () => ((await row(id)).tries >= tries ? true : undefined))
  const sent = (id: number) =>
    until('the note that it was sent', async () => ((await row(id)).sentAt ? row(id) : undefined))

  // runs first: a control plane does not start with a clock that moved far
  test('what was queued before a restart is sent after it', async () => {
    const { port } = server
    await server.close()
    const id = await queue({ subject: 'Survivor' })
    await tried(id, 1)
    await cp.restart()
    server = new MailServer()
    await server.listen(port)
    cp.clock.offsetMs += MAIL.backoffMs[0]
    ctx().notifier.notify(MAIL_TOPIC)
    await sent(id)
    expect(server.received).toHaveLength(1)
  })

  test('a letter is sent once, whole, and its text is gone afterwards', async () => {
    const text = 'Grüße,\n\n.a line with a dot\nhttps://berth.example.com/x?token=secret-link\n'
    const id = await queue({ subject: 'Einladung für Ada', text })
    expect((await row(id)).sealed).not.toContain('secret-link')
    const [mail] = await arrived()
    expect(mail).toMatchObject({ from: 'berth@example.com', to: ['ada@example.com'] })
    const raw = mail?.raw ?? ''
    expect(header(raw, 'From')).toEqual(['From: Berth <berth@example.com>'])
    expect(header(raw, 'To')).toEqual(['To: ada@example.com'])
    expect(header(raw, 'Message-ID')[0]).toContain(`mail-${id}@${ctx().installationId}`)
    expect(header(raw, 'Auto-Submitted')).toHaveLength(1)
    const body = raw.slice(raw.indexOf('\r\n\r\n') + 4)
    const decoded = Buffer.from(
      body
        .replaceAll('=\r\n', '')
        .replaceAll(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
      'latin1',
    ).toString('utf8')
    expect(decoded.replaceAll('\r\n', '\n').trim()).toBe(text.trim())
    expect(await sent(id)).toMatchObject({ sealed: '', nextAt: null, error: null, tries: 0 })
    ctx().notifier.notify(MAIL_TOPIC)
    await sendDueMails(
      ctx(),
      openMailer(cp.running.ctx.config.mail, cp.dir, () => {}),
    )
    expect(server.received).toHaveLength(1)
    expect(logged.join('')).not.toContain('secret-link')
  })

  test('a refused change sends nothing', async () => {
    const refused = change(ctx(), async (c) => {
      await queueMail(ctx(), c, { kind: 'alert', to: 'a@example.com', subject: 'x', text: 'x' })
      throw new Error('no')
    })
    await expect(refused).rejects.toThrow('no')
    await queue({ subject: 'After it' })
    await arrived()
    expect(server.received.map((m) => header(m.raw, 'Subject')[0])).toEqual(['Subject: After it'])
  })

  test('no name adds a header or a recipient', async () => {
    const bad = 'Acme\r\nBcc: eve@example.com\r\n\r\nHello\u2028X: y\u0085Z: w'
    const id = await queue({ subject: `Invitation to ${bad}` })
    // the table already has it as one line, independent of the mail library
    expect((await row(id)).subject).toBe('Invitation to Acme Bcc: eve@example.com Hello X: y Z: w')
    const [mail] = await arrived()
    expect(mail?.to).toEqual(['ada@example.com'])
    expect(header(mail?.raw ?? '', 'Bcc')).toEqual([])
    expect(header(mail?.raw ?? '', 'X')).toEqual([])
    expect(header(mail?.raw ?? '', 'Subject')).toHaveLength(1)
    expect(
      headersOf(mail?.raw ?? '')
        .map((h) => h.split(':')[0])
        .sort(),
    ).toEqual(
      [
        'Auto-Submitted',
        'Content-Transfer-Encoding',
        'Content-Type',
        'Date',
        'From',
        'MIME-Version',
        'Message-ID',
        'Subject',
        'To',
      ].sort(),
    )
  })

  test.each([
    'a@example.com, eve@example.com',
    'a@example.com\r\nBcc: eve@example.com',
    'Ada <ada@example.com>',
    '"x@evil.example"@example.com',
    'a@example.com>\r\nRCPT TO:<eve@example.com',
    'group:a@example.com,eve@example.com;',
    'nobody',
    '',
  ])('no address but one address: %j', async (to) => {
    const id = await queue({ to })
    await tried(id, 1)
    expect(await row(id)).toMatchObject({ nextAt: null, sealed: '', sentAt: null })
    expect(server.received).toEqual([])
  })

  test('a server that is away: five tries within a day, then given up with its reason', async () => {
    const { port } = server
    await server.close()
    const id = await queue()
    for (let n = 1; n <= MAIL.tries; n++) {
      await tried(id, n)
      const { nextAt, sealed, error } = await row(id)
      expect(error).toMatch(/ECONNREFUSED|connect/)
      if (n === MAIL.tries) {
        expect({ nextAt, sealed }).toEqual({ nextAt: null, sealed: '' })
        break
      }
      expect((nextAt ?? 0) - ctx().clock.now()).toBeGreaterThan((MAIL.backoffMs[n - 1] ?? 0) / 2)
      expect(sealed).not.toBe('')
      cp.clock.offsetMs += MAIL.backoffMs[n - 1] ?? 0
      ctx().notifier.notify(MAIL_TOPIC)
    }
    const { createdAt, givenUpAt } = await row(id)
    expect((givenUpAt ?? 0) - createdAt).toBeLessThan(MAIL.giveUpMs)
    server = new MailServer()
    await server.listen(port)
    const later = await queue({ subject: 'Back' })
    await arrived()
    await sent(later)
  })

  test('an address that the other side refuses for good is tried once, a full one again', async () => {
    server.refuse = (address) =>
      Object.assign(new Error(`no ${address}`), {
        responseCode: address.startsWith('gone') ? 550 : 452,
      })
    const gone = await queue({ to: 'gone@example.com' })
    const full = await queue({ to: 'full@example.com' })
    await tried(gone, 1)
    await tried(full, 1)
    expect((await row(gone)).nextAt).toBeNull()
    expect((await row(full)).nextAt).not.toBeNull()
    server.refuse = undefined
    cp.clock.offsetMs += MAIL.backoffMs[0]
    ctx().notifier.notify(MAIL_TOPIC)
    await sent(full)
    expect(server.received.map((m) => m.to)).toEqual([['full@example.com']])
  })

  test('two senders: each mail goes out once', async () => {
    let go = (): void => {}
    server.hold = new Promise((resolve) => {
      go = resolve
    })
    const ids = []
    for (let n = 0; n < 8; n++) ids.push(await queue({ subject: `Number ${n}` }))
    const second = openMailer(ctx().config.mail, cp.dir, () => {})
    // the control plane's own sender is running; these two act as other processes
    const others = [sendDueMails(ctx(), second), sendDueMails(ctx(), second)]
    await until('somebody to be sending', () => server.waiting > 0 || undefined)
    go()
    await Promise.all(others)
    for (const id of ids) await sent(id)
    const subjects = server.received.map((m) => header(m.raw, 'Subject')[0])
    expect(subjects.sort()).toEqual(ids.map((_, n) => `Subject: Number ${n}`))
  })

  test('a sender that died in the middle: sent again after its lease, under the same id', async () => {
    const now = ctx().clock.now()
    const id = await change(ctx(), async (c) => {
      const made = await queueMail(ctx(), c, {
        kind: 'alert',
        to: 'ada@example.com',
        subject: 'Leased',
        text: 'x',
      })
      const leaseUntil = now + MAIL.leaseMs
      await c.db.updateTable('mails').set({ leaseUntil }).where('id', '=', made).execute()
      return made
    })
    await queue({ subject: 'Another' })
    await arrived()
    expect((await row(id)).sentAt).toBeNull()
    cp.clock.offsetMs += MAIL.leaseMs + 1_000
    ctx().notifier.notify(MAIL_TOPIC)
    await sent(id)
  })
})

describe('without a mail server', () => {
  test('in development letters are files for us alone and on the console, and in no log', async () => {
    const logged: string[] = []
    const cp = await TestControlPlane.start('sqlite', { logTo: (line) => logged.push(line) })
    const { ctx } = cp.running
    const text = 'https://berth.example.com/x?token=secret-link\n'
    const id = await change(ctx, (c) =>
      queueMail(ctx, c, { kind: 'invitation', to: 'ada@example.com', subject: 'Hello', text }),
    )
    const dir = join(cp.dir, 'mail')
    const [file = ''] = await until('a file', () => {
      const files = readdirSync(dir)
      return files.length > 0 ? files : undefined
    })
    expect(file).toBe(`${String(id).padStart(10, '0')}-invitation.txt`)
    expect(statSync(join(dir, file)).mode & 0o777).toBe(0o600)
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    expect(readFileSync(join(dir, file), 'utf8')).toContain(text)
    await cp.close()
    expect(logged.join('')).not.toContain('secret-link')
    const printed: string[] = []
    const mailer = openMailer({ kind: 'files' }, dir, (line) => printed.push(line))
    for (let n = 0; n < MAIL.keptFiles + 3; n++) {
      const name = String(n).padStart(10, '0')
      await mailer.send({ messageId: '<x@y>', name, to: 'a@example.com', subject: 's', text })
    }
    expect(readdirSync(dir)).toHaveLength(MAIL.keptFiles)
    expect(printed[0]).toContain('secret-link')
  })

  test('in production it is said at the start, and letters are given up with that reason', async () => {
    const logged: string[] = []
    const cp = await TestControlPlane.start('sqlite', {
      logTo: (line) => logged.push(line),
      config: { mail: { kind: 'none' } },
    })
    expect(logged.join('')).toContain('BERTH_SMTP_URL is not set')
    const { ctx } = cp.running
    const id = await change(ctx, (c) =>
      queueMail(ctx, c, { kind: 'alert', to: 'ada@example.com', subject: 's', text: 't' }),
    )
    const row = await until('the reason', async () => {
      const found = await ctx.db
        .selectFrom('mails')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
      return found.error === null ? undefined : found
    })
    expect(row.error).toContain('BERTH_SMTP_URL')
    const opened = await ctx.secretStore.open('mail', mailPlace(id), row.sealed)
    expect(Buffer.from(opened).toString()).toBe('t')
    await cp.close()
  })
})

describe('the settings', () => {
  test.each([
    ['smtp://mail.example.com', { port: 587, secure: false, requireTLS: true, ignoreTLS: false }],
    ['smtps://mail.example.com', { port: 465, secure: true, requireTLS: false, ignoreTLS: false }],
    ['smtp://127.0.0.1:2525', { port: 2525, requireTLS: false, ignoreTLS: true }],
    ['smtp://[::1]:25', { host: '::1', port: 25, ignoreTLS: true }],
    ['smtp://localhost.evil.example', { requireTLS: true, ignoreTLS: false }],
    ['smtp://u%40x:p%2Fw@mail.example.com', { auth: { user: 'u@x', pass: 'p/w' } }],
  ])('%s', (url, options) => {
    expect(readSmtpUrl(url)).toMatchObject(options)
  })

  test.each([
    'http://mail.example.com',
    'mail.example.com:25',
    'smtp://',
    'smtp://u:hunter2@mail.example.com?tls.rejectUnauthorized=false',
    'smtp://u:hunter2@mail.example.com/path',
  ])('refused, without showing the password: %s', (url) => {
    expect(() => readSmtpUrl(url)).toThrow(/^must be /)
    expect(() => readSmtpUrl(url)).not.toThrow(/hunter2/)
  })

  test('the sender is one address, with a name or without', () => {
    expect(readSender('Berth <b@example.com>')).toEqual({ name: 'Berth', address: 'b@example.com' })
    expect(readSender('b@example.com')).toEqual({ name: '', address: 'b@example.com' })
    for (const bad of ['', 'Berth', 'a@x.y, b@x.y', 'B <b@x.y>\r\nBcc: e@x.y', 'B" <b@x.y>']) {
      expect(() => readSender(bad)).toThrow(/^must be an address/)
    }
  })
})
