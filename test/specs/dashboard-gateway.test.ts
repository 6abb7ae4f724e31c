// What the control plane serves to browsers: the built dashboard under a strict policy, parts of logs, and downloads by
// tickets that are valid once, for a minute, for one user.
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ArtifactIntake } from '../../agent/src/files/store.ts'
import { Ledger } from '../../agent/src/journal/ledger.ts'
import { Masker } from '../../agent/src/machine/masking/mask.ts'
import { ServiceLog } from '../../agent/src/service-logs/writer.ts'
import { hashPassword } from '../../control-plane/src/identity/passwords.ts'
import { LOG_PAGES } from '../../control-plane/src/limits/browser.ts'
import { insertArtifacts } from '../../control-plane/src/store/files/artifacts.ts'
import { insertPassword } from '../../control-plane/src/store/people/accounts.ts'
import { Browser, PASSWORD } from '../fixtures/people/people.ts'
import { makePerson, openDashboardClient } from '../fixtures/platform/dashboard-client.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

const THEME = "document.documentElement.dataset.theme = 'dark'"
const INDEX = `<!doctype html><title>Berth</title><script>${THEME}</script>
<script type="module" src="/assets/index-AbCd1234.js"></script>`
const SCRIPT = `console.log(${JSON.stringify('x'.repeat(5_000))})`

interface Lines {
  lines: { n: number; text: string }[]
  next_line: number | null
  log_lines: number
  log_complete: boolean
}
interface Found {
  found: number[]
  next_line: number | null
}

describe('what browsers get', () => {
  let p: Platform
  let dir = ''
  let ada: Browser
  let taskId = 0
  const OUTPUT = Array.from({ length: 1_500 }, (_, n) =>
    n === 1_200 ? '\u001b[31mcart.ts(1,2): error TS1: no\u001b[0m' : `line ${n + 1} ü`,
  )

  /** A signed-in member of the organization with a login of their own. */
  async function signedIn(name: string): Promise<Browser> {
    const { db, clock } = p.cp.running.ctx
    const email = `${name}@example.com`
    const { userId } = await makePerson(p.cp, name, { organizationId: 1, role: 'developer', email })
    await insertPassword(db, userId, await hashPassword(PASSWORD), clock.now())
    const browser = new Browser(p.cp)
    const answer = await browser.report('session.signIn', { email, password: PASSWORD })
    expect(answer.status, answer.text).toBe(200)
    return browser
  }

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'berth-dashboard-'))
    p = await Platform.start('sqlite', { env: { BERTH_DASHBOARD_DIR: join(dir, 'dist') } })
    ada = await signedIn('viewer')
    const { id } = await p.environment('main')
    p.executor.script = (a) => {
      for (const line of OUTPUT) a.say(`${line}\n`)
      a.succeed()
    }
    taskId = (await p.deploy(id)).body.id
    await p.settled(taskId)
  })
  afterAll(async () => {
    await p.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(p.cp.url + path, { headers, redirect: 'manual' })

  test('without a build: a page that says how to make one, and the API works', async () => {
    const answer = await get('/')
    expect(answer.status).toBe(503)
    expect(await answer.text()).toContain('npm run build:dashboard')
    expect((await get('/api/health')).status).toBe(200)
  })

  describe('the built dashboard', () => {
    beforeAll(() => {
      mkdirSync(join(dir, 'dist/assets'), { recursive: true })
      writeFileSync(join(dir, 'dist/index.html'), INDEX)
      writeFileSync(join(dir, 'dist/favicon.svg'), '<svg/>')
      writeFileSync(join(dir, 'dist/assets/index-AbCd1234.js'), SCRIPT)
      writeFileSync(join(dir, 'secret.txt'), 'not of the dashboard')
    })

    test('its page is at every address it knows, and at no other', async () => {
      const pages = ['/', '/login', '/setup', '/device?code=ABCD-EFGH', '/invite/x', '/reset/x']
      pages.push('/projects/12/settings', '/environments/101/logs', '/tasks/813', '/servers')
      pages.push('/servers/3', '/org/members', '/account/tokens', '/admin', '/docs/service-file')
      for (const path of pages) {
        const answer = await get(path)
        expect([answer.status, await answer.text()], path).toEqual([200, INDEX])
      }
      for (const path of ['/api', '/api/nothing', '/trpc/nothing', '/webhooks', '/downloads/x']) {
        const answer = await get(path)
        expect(await answer.text(), path).not.toContain('<!doctype')
        expect(answer.status, path).toBeGreaterThanOrEqual(400)
      }
      // the control plane's own pages still work
      expect(await (await get('/docs/errors/not_found')).text()).toContain('What it means')
      expect(await (await get('/api/docs')).text()).toContain('Berth API')
    })

    test('its policy: own scripts and the one inline script, nothing from elsewhere, no frame', async () => {
      const { headers } = await get('/tasks/813')
      const policy = headers.get('content-security-policy') ?? ''
      const parts = policy.split('; ')
      const hash = createHash('sha256').update(THEME).digest('base64')
      const { host } = new URL(p.cp.url)
      expect(parts).toEqual([
        "default-src 'self'",
        `script-src 'self' 'sha256-${hash}'`,
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        `connect-src 'self' ws://${host}`,
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "require-trusted-types-for 'script'",
      ])
      expect(policy).not.toContain('unsafe')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('referrer-policy')).toBe('same-origin')
      expect(headers.get('cross-origin-opener-policy')).toBe('same-origin')
      expect(headers.get('cache-control')).toBe('no-cache')
    })

    test('files: kept for ever when their name says what is in them, packed when taken so', async () => {
      const packed = await get('/assets/index-AbCd1234.js', { 'accept-encoding': 'gzip' })
      expect(packed.headers.get('cache-control')).toContain('immutable')
      expect(packed.headers.get('content-encoding')).toBe('gzip')
      expect(packed.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
      expect(await packed.text()).toBe(SCRIPT) // fetch decompresses it
      expect(Number(packed.headers.get('content-length'))).toBeLessThan(SCRIPT.length)
      const plain = await get('/assets/index-AbCd1234.js', { 'accept-encoding': 'identity' })
      expect([plain.headers.get('content-encoding'), await plain.text()]).toEqual([null, SCRIPT])
      const icon = await get('/favicon.svg')
      expect(icon.headers.get('cache-control')).toBe('public, max-age=300')
      const tag = icon.headers.get('etag') ?? ''
      expect((await get('/favicon.svg', { 'if-none-match': tag })).status).toBe(304)
    })

    test('nothing outside its folder has an address', async () => {
      for (const path of [
        '/assets/../secret.txt',
        '/assets/..%2f..%2fsecret.txt',
        '/assets/x.js',
      ]) {
        const answer = await get(path)
        expect([answer.status, (await answer.text()).includes('not of the dashboard')]).toEqual([
          404,
          false,
        ])
      }
    })
  })

  test('ranges of a log: as asked for, at most a page, the rest named', async () => {
    const read = async (from: number, to: number) =>
      (await ada.ask<Lines>('task.log', { task_id: taskId, from, to })).body.result?.data
    const raw = (await p.log(taskId)).split('\n')
    const text = (part: Lines | undefined) => part?.lines.map((l) => l.text).join('')
    const some = await read(100, 120)
    expect(text(some)).toBe(`${raw.slice(99, 120).join('\n')}\n`)
    expect(some).toMatchObject({ next_line: null, log_complete: true })
    const all = await read(1, 5_000)
    expect(all?.next_line).toBe(LOG_PAGES.lines + 1)
    const rest = await read(LOG_PAGES.lines + 1, 5_000)
    expect(rest?.next_line).toBeNull()
    expect(`${text(all)}${text(rest)}`).toBe(raw.join('\n'))
    expect(text(await read(9_000, 9_010))).toBe('')
  })

  test('the server searches what a page has not loaded', async () => {
    const raw = (await p.log(taskId)).split('\n')
    const find = async (name: string, input: object) =>
      (await ada.ask<Found>(name, { task_id: taskId, ...input })).body.result?.data
    const at = raw.findIndex((l) => l.includes('error TS1')) + 1
    expect(at).toBeGreaterThan(1_000)
    expect(await find('task.search', { query: 'ERROR ts1' })).toMatchObject({ found: [at] })
    const sensitive = await find('task.search', { query: 'ERROR ts1', case_sensitive: true })
    expect(sensitive?.found).toEqual([])
    expect(await find('task.errors', {})).toMatchObject({ found: [at], next_line: null })
    const many = await find('task.search', { query: 'line ' })
    expect(many?.found).toHaveLength(LOG_PAGES.matches)
    const next = await find('task.search', { query: 'line ', from_line: many?.next_line })
    expect(next?.next_line).toBeNull()
    expect(new Set([...(many?.found ?? []), ...(next?.found ?? [])]).size).toBe(
      raw.filter((l) => l.includes('line ')).length,
    )
  })

  test('what services write is heard by a page, and a server that is away is said', async () => {
    const page = openDashboardClient(p.cp, p.cp.token)
    const dir = join(p.agentDir, 'logs/e1/web')
    const log = new ServiceLog(dir, 7, new Masker([]))
    log.write('out', Buffer.from('hello\n'))
    const heard = page.watch(page.client.environment.logs, { environment_id: 1 })
    // this stream does not resume, so its messages have no numbers
    const reported = () =>
      heard.messages as unknown as { kind: string; records?: { text: string }[] }[]
    const texts = () => reported().flatMap(({ records = [] }) => records.map((one) => one.text))
    await until('the line of before', () => texts().includes('hello') || undefined)
    log.write('err', Buffer.from('again\n'))
    await until('the line of now', () => texts().includes('again') || undefined)
    expect(reported()[0]).toEqual({ kind: 'begun' })
    const none = await p.cp.server('without an agent')
    const { id: project } = await p.cp.project('quiet', none.id)
    await p.cp.running.ctx.db
      .insertInto('agents')
      .values({ id: 'agent-away', serverId: none.id, installId: 'i', joinedAt: 1 })
      .execute()
    const { id } = await p.cp.environment(project, 'main')
    const refused = page.watch(page.client.environment.logs, { environment_id: id })
    expect((await refused.refused()).code).toBe('server_offline')
    heard.stop()
    await page.close()
    log.close()
  })

  describe('a ticket', () => {
    const ticket = async (browser = ada, input: object = {}) => {
      const asked = { task_id: taskId, ...input }
      const { body, text } = await browser.report<{ url: string }>('task.logTicket', asked)
      if (!body.result) throw new Error(text)
      return body.result.data.url
    }
    const open = (browser: Browser | undefined, url: string) =>
      get(url, browser ? { cookie: browser.cookie } : {})

    test('brings the raw log, once', async () => {
      const url = await ticket()
      expect(url).toMatch(/^\/downloads\/[\w-]{43}$/)
      const answer = await open(ada, url)
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
      expect(answer.headers.get('content-disposition')).toBe(
        `attachment; filename="task-${taskId}.log"`,
      )
      expect(answer.headers.get('cache-control')).toBe('no-store')
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
      expect(answer.headers.get('content-security-policy')).toContain('sandbox')
      expect(await answer.text()).toBe(await p.log(taskId))
      expect((await open(ada, url)).status).toBe(404)
    })

    test('is of one person: another, or nobody, gets what a missing one gets', async () => {
      const url = await ticket()
      const grace = await signedIn('grace')
      const plain = async (answer: Response) =>
        (await answer.text()).replaceAll(/req_[\w-]+|\/downloads\/[\w-]+/g, '')
      const unknown = await open(grace, `/downloads/${'A'.repeat(43)}`)
      const foreign = await open(grace, url)
      expect([unknown.status, foreign.status]).toEqual([404, 404])
      expect(await plain(foreign)).toBe(await plain(unknown))
      expect((await open(undefined, url)).status).toBe(404)
      const bearer = { authorization: `Bearer ${p.cp.token}` }
      expect((await get(url, bearer)).status).toBe(404)
      expect((await open(ada, url)).status).toBe(200) // and stays valid for its owner
    })

    test('dies after a minute, with access, and is never given for what one may not see', async () => {
      const late = await ticket()
      await p.cp.advance(61_000)
      expect((await open(ada, late)).status).toBe(404)
      const mallory = await signedIn('mallory')
      const held = await ticket(mallory)
      await p.cp.running.ctx.db
        .deleteFrom('members')
        .where('userId', '=', (q) =>
          q.selectFrom('users').select('id').where('name', '=', 'mallory').limit(1),
        )
        .execute()
      expect((await open(mallory, held)).status).toBe(404)
      const refused = await mallory.report('task.logTicket', { task_id: taskId })
      expect(refused.body.error?.data.code).toBe('not_found')
    })

    test('brings a file of an action from its server, after the server said that it has it', async () => {
      const { db, clock } = p.cp.running.ctx
      const content = Buffer.from('a,b\n1,2\n')
      const now = clock.now()
      const settings = { stateDir: p.agentDir }
      const intake = new ArtifactIntake(
        settings,
        { environmentId: 1, taskId },
        { files: 9, bytes: 9_999 },
      )
      const incoming = intake.begin('exports/two words.csv', content.length, now)
      incoming?.write(content)
      incoming?.finish()
      const ledger = new Ledger(settings)
      const [row] = await intake.commit(ledger, now + 3_600_000)
      ledger.close()
      const known = {
        taskId,
        serverId: p.serverId,
        path: 'exports/two words.csv',
        sizeBytes: content.length,
        sha256: createHash('sha256').update(content).digest('hex'),
        collectedAt: now,
        expiresAt: now + 3_600_000,
      }
      await insertArtifacts(db, [
        { ...known, fileId: row?.id ?? '' },
        { ...known, fileId: 'gone', path: 'gone.csv' },
        { ...known, fileId: 'late', path: 'late.csv', expiresAt: now - 1 },
      ])
      interface List {
        artifacts: { id: number; name: string }[]
      }
      const listed = await ada.ask<List>('artifact.list', { task_id: taskId })
      const ids = listed.body.result?.data.artifacts.map((a) => a.id) ?? []
      const ask = (artifact_id: number | undefined) =>
        ada.report<{ url: string }>('artifact.ticket', { artifact_id })
      const given = await ask(ids[0])
      const file = await open(ada, given.body.result?.data.url ?? '/downloads/x')
      expect([file.status, await file.text()]).toEqual([200, content.toString()])
      expect(file.headers.get('content-disposition')).toMatch(/^attachment; .*two.words\.csv/)
      expect(file.headers.get('content-security-policy')).toContain('sandbox')
      expect((await open(ada, given.body.result?.data.url ?? '')).status).toBe(404)
      // a message on the page, and no ticket
      expect((await ask(ids[1])).body.error?.data.code).toBe('artifact_gone')
      expect((await ask(ids[2])).body.error?.data.code).toBe('artifact_expired')
      expect((await ask(9_999)).body.error?.data.code).toBe('not_found')
    })

    test('may show the log instead of saving it; a look alone does not use it up', async () => {
      const url = await ticket(ada, { shown: true })
      await fetch(p.cp.url + url, { method: 'HEAD', headers: { cookie: ada.cookie } })
      const answer = await open(ada, url)
      expect(answer.headers.get('content-disposition')).toMatch(/^inline;/)
      await answer.body?.cancel()
    })
  })
})
