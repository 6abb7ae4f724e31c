// A real browser for tests: the system's Chromium, driven by playwright-core. Each visitor is a browser of their own
// (cookies, storage). What a page must never do is watched from the start: errors, refused content, foreign requests.
import { type BrowserContext, type Browser as Chrome, chromium, type Page } from 'playwright-core'
import { buildDashboardIfStale } from '../scripts/build-dashboard.ts'
import { locate } from './components.ts'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
]
/** A bound, not a measure. */
const WAIT_MS = 30_000

export interface Look {
  theme?: 'light' | 'dark'
  width?: number
  height?: number
}

export class Visitor {
  readonly context: BrowserContext
  readonly page: Page
  readonly url: string
  /** What went wrong in the page, in the order it did. */
  readonly complaints: string[] = []

  constructor(context: BrowserContext, page: Page, url: string) {
    this.context = context
    this.page = page
    this.url = url
    page.on('pageerror', (error) => this.complaints.push(`error: ${error.message}`))
    page.on('console', (message) => {
      // answers that are no 2xx and connections that fail are noted by the browser; the page deals with them
      const isNoise = /^(Failed to load resource|WebSocket connection to)/.test(message.text())
      if (message.type() === 'error' && !isNoise) this.complaints.push(`console: ${message.text()}`)
    })
    page.on('request', (request) => {
      const to = request.url()
      if (!to.startsWith(url) && !to.startsWith('data:')) this.complaints.push(`foreign: ${to}`)
    })
  }

  goto(path: string): Promise<unknown> {
    return this.page.goto(this.url + path)
  }

  heading(name: string | RegExp): Promise<void> {
    return this.page.getByRole('heading', { level: 1, name }).waitFor()
  }

  button(name: string | RegExp) {
    return this.page.getByRole('button', { name, exact: typeof name === 'string' })
  }

  link(name: string | RegExp) {
    return this.page.getByRole('link', { name, exact: typeof name === 'string' })
  }

  text(words: string | RegExp) {
    return this.page.getByText(words)
  }

  async fill(label: string, value: string): Promise<void> {
    await this.page.getByLabel(label, { exact: true }).fill(value)
  }

  async signIn(email: string, password: string): Promise<void> {
    await this.goto('/login')
    await this.fill('E-mail', email)
    await this.fill('Password', password)
    await this.button('Sign in').click()
    await this.heading('Projects')
  }

  close(): Promise<void> {
    return this.context.close()
  }
}

export class Chromium {
  readonly #chrome: Chrome
  private constructor(chrome: Chrome) {
    this.#chrome = chrome
  }

  static async launch(): Promise<Chromium> {
    await buildDashboardIfStale()
    const executablePath = locate('chromium')
    if (!executablePath) throw new Error('chromium is missing')
    return new Chromium(await chromium.launch({ executablePath, args: FLAGS }))
  }

  async visit(url: string, look: Look = {}): Promise<Visitor> {
    const { theme = 'light', width = 1_280, height = 800 } = look
    const context = await this.#chrome.newContext({
      viewport: { width, height },
      colorScheme: theme,
      reducedMotion: 'reduce',
      locale: 'en-GB',
      timezoneId: 'UTC',
    })
    context.setDefaultTimeout(WAIT_MS)
    return new Visitor(context, await context.newPage(), url)
  }

  close(): Promise<void> {
    return this.#chrome.close()
  }
}
