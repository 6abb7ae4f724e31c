// People for tests: a browser with a cookie jar that behaves as browsers do, the mail that went out, and members made by
// real invitations.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Role, SetupResponse } from '@berth/shared/rest'
import type { Answer, TestControlPlane } from './control-plane.ts'
import { until } from './lab.ts'

export const PASSWORD = 'correct horse battery'

export async function setUpWithPassword(cp: TestControlPlane): Promise<SetupResponse> {
  const made = await cp.make<SetupResponse>('/api/setup', {
    token: cp.running.setupToken,
    name: 'Ada',
    email: 'Ada@Example.com',
    organization: 'Acme',
    password: PASSWORD,
  })
  cp.token = made.token
  return made
}

/** What tRPC says. */
export interface Said<T> {
  result?: { data: T }
  error?: { message: string; data: { code: string; [detail: string]: unknown } }
}

/** Sends its cookies and its origin, as pages of the installation do. */
export class Browser {
  readonly #cp: TestControlPlane
  readonly cookies = new Map<string, string>()
  setCookies: string[] = []

  constructor(cp: TestControlPlane) {
    this.#cp = cp
  }

  get cookie(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  send<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer<T>> {
    return this.fetch<T>(method, `/api/auth${path}`, body, headers)
  }

  /** A query of the dashboard. */
  ask<T>(name: string, input?: object): Promise<Answer<Said<T>>> {
    const query = input ? `?input=${encodeURIComponent(JSON.stringify(input))}` : ''
    return this.fetch<Said<T>>('GET', `/trpc/${name}${query}`)
  }

  /** A change by the dashboard. */
  tell<T>(
    name: string,
    input: object = {},
    headers: Record<string, string> = {},
  ): Promise<Answer<Said<T>>> {
    return this.fetch<Said<T>>('POST', `/trpc/${name}`, input, headers)
  }

  async fetch<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer<T>> {
    const answer = await this.#cp.call<T>(method, path, body, {
      authorization: '',
      ...(method === 'GET' ? {} : { origin: this.#cp.url }),
      ...(this.cookies.size > 0 ? { cookie: this.cookie } : {}),
      ...headers,
    })
    this.setCookies = answer.headers.getSetCookie()
    for (const line of this.setCookies) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (/max-age=0/i.test(line)) this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    return answer
  }

  signIn(email: string, password: string): Promise<Answer> {
    return this.send('POST', '/sign-in/email', { email, password })
  }

  /** Who the control plane takes this browser for. */
  async user(): Promise<string | undefined> {
    const { body } = await this.send<{ user?: { email: string } } | null>('GET', '/get-session')
    return body?.user?.email
  }
}

export interface SentMail {
  id: number
  kind: string
  recipient: string
  subject: string
  text: string
}

/** What went out: without a mail server letters become files. */
export async function listMails(cp: TestControlPlane): Promise<SentMail[]> {
  const dir = join(cp.dir, 'mail')
  return readdirSync(dir)
    .sort()
    .map((file) => {
      const [, id = '', kind = ''] = /^(\d+)-(\w+)\.txt$/.exec(file) ?? []
      const letter = readFileSync(join(dir, file), 'utf8')
      const [, recipient = '', subject = '', text = ''] =
        /^To: (.*)\nSubject: (.*)\n\n([\s\S]*)$/.exec(letter) ?? []
      return { id: Number(id), kind, recipient, subject, text }
    })
}

/** The newest mail to an address, once there are `count` of this kind. */
export const mailTo = (
  cp: TestControlPlane,
  recipient: string,
  kind: string,
  count = 1,
): Promise<SentMail> =>
  until(`mail ${count} (${kind}) to ${recipient}`, async () => {
    const own = (await listMails(cp)).filter((m) => m.recipient === recipient && m.kind === kind)
    return own.length >= count ? own.at(-1) : undefined
  })

export const linkIn = (mail: SentMail): URL => {
  const [link] = /https?:\/\/\S+\/(reset|invite)\/\S+/.exec(mail.text) ?? []
  if (link === undefined) throw new Error('the mail holds no link')
  return new URL(link)
}
export const tokenIn = (mail: SentMail): string =>
  decodeURIComponent(linkIn(mail).pathname.split('/').at(-1) ?? '')

export interface Person {
  id: number
  email: string
  /** A personal token with every scope. */
  token: string
}

/** Somebody new: invited by `cp.token`, registered by the link, with a token of their own. */
export async function person(
  cp: TestControlPlane,
  name: string,
  role: Role,
  organizationId = 1,
): Promise<Person> {
  const email = `${name.toLowerCase()}@example.com`
  await cp.make(`/api/organizations/${organizationId}/invitations`, { email, role })
  const invitation = tokenIn(await mailTo(cp, email, 'invitation'))
  const body = { token: invitation, name, password: PASSWORD }
  const { user } = await cp.make<{ user: { id: number } }>('/api/invitations/register', body)
  const { device_code } = await startDevice(cp, 'read deploy write ssh admin')
  const browser = new Browser(cp)
  await browser.signIn(email, PASSWORD)
  await approve(cp, browser, device_code)
  const { access_token } = (await poll(cp, device_code)).body
  return { id: user.id, email, token: String(access_token) }
}

/** With another token than the test's own. */
export async function as<T>(
  cp: TestControlPlane,
  token: string,
  work: () => Promise<T>,
): Promise<T> {
  const before = cp.token
  cp.token = token
  try {
    return await work()
  } finally {
    cp.token = before
  }
}

export const form = (cp: TestControlPlane, path: string, fields: Record<string, string>) =>
  cp.call('POST', path, new URLSearchParams(fields).toString(), {
    authorization: '',
    'content-type': 'application/x-www-form-urlencoded',
  })

const userCodes = new Map<string, string>()

export async function startDevice(
  cp: TestControlPlane,
  scope = 'read deploy write ssh',
): Promise<{ device_code: string; user_code: string }> {
  const fields = { client_id: 'berth-cli', scope, device_name: 'ada-laptop' }
  const { status, body, text } = await form(cp, '/api/oauth/device_authorization', fields)
  if (status !== 200) throw new Error(text)
  const started = body as { device_code: string; user_code: string }
  userCodes.set(started.device_code, started.user_code)
  return started
}

export async function approve(
  cp: TestControlPlane,
  browser: Browser,
  deviceCode: string,
): Promise<void> {
  const user_code = userCodes.get(deviceCode)
  const { status, text } = await browser.send('POST', '/device/approve', { user_code })
  if (status !== 200) throw new Error(`${cp.url}: ${text}`)
}

export const poll = (cp: TestControlPlane, deviceCode: string) =>
  form(cp, '/api/oauth/token', {
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    client_id: 'berth-cli',
    device_code: deviceCode,
  })

export const refresh = (cp: TestControlPlane, token: string) =>
  form(cp, '/api/oauth/token', {
    grant_type: 'refresh_token',
    client_id: 'berth-cli',
    refresh_token: token,
  })
