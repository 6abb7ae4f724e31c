import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { berth, berthInTerminal, temporaryFolder } from '../../testing/berth.ts'
import { startInstallation } from '../../testing/installation.ts'
import { problem, type Scripted } from '../../testing/peer.ts'
import { me, task } from '../../testing/samples.ts'

const read = (folder: string) => JSON.parse(readFileSync(join(folder, 'credentials.json'), 'utf8'))

async function loggedIn() {
  const { peer } = await startInstallation()
  const folder = temporaryFolder()
  const env = { BERTH_CONFIG_DIR: folder }
  const args = ['login', '--with-token', '--url', peer.url]
  const ended = await berth(args, { env, stdin: 'berth_pat_mine\n' })
  return { peer, folder, env, ended }
}

describe('login', () => {
  it('checks the token, stores it with mode 0600, and never prints it', async () => {
    const { peer, folder, env, ended } = await loggedIn()
    expect(ended.code).toBe(0)
    expect(ended.stderr).toContain(`Logged in to ${peer.url} as Ada Lovelace (ada@example.com)`)
    expect(ended.stdout + ended.stderr).not.toContain('berth_pat_mine')
    expect(peer.requests[0]?.headers.authorization).toBe('Bearer berth_pat_mine')
    expect(statSync(join(folder, 'credentials.json')).mode & 0o777).toBe(0o600)
    expect(read(folder)[peer.url]).toMatchObject({ access_token: 'berth_pat_mine' })
    const who = await berth(['whoami'], { env })
    expect(who.code).toBe(0)
    expect(who.stdout).toBe(`7\tAda Lovelace\tada@example.com\t${peer.url}\tread,deploy\n`)
  })

  it('a token the server refuses is not stored: 4', async () => {
    const { peer } = await startInstallation()
    peer.script('GET /api/me', problem('token_invalid', 'The token is not valid.'))
    const folder = temporaryFolder()
    const { code, stderr } = await berth(['login', '--with-token', '--url', peer.url], {
      env: { BERTH_CONFIG_DIR: folder },
      stdin: 'berth_pat_wrong',
    })
    expect(code).toBe(4)
    expect(stderr).toContain('error: The token is not valid.')
    expect(readdirSync(folder)).toEqual([])
  })

  it.each([
    [
      'with a scope for a token that has its own',
      ['login', '--with-token', '--scope', 'admin', '--url', 'https://h'],
      'x',
      '--scope has no meaning with --with-token',
    ],
    ['through a browser without an address', ['login'], '', 'which server?'],
    ['without an address', ['login', '--with-token'], 'x', 'which server?'],
    [
      'without a token',
      ['login', '--with-token', '--url', 'https://h'],
      '',
      'stdin does not hold a token',
    ],
    [
      'over plain http',
      ['login', '--with-token', '--url', 'http://example.com'],
      'x',
      'is not encrypted',
    ],
  ])('%s: 2', async (_, args, stdin, message) => {
    const { code, stderr } = await berth(args, {
      env: { BERTH_CONFIG_DIR: temporaryFolder() },
      stdin,
    })
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })

  it('does not let a token be typed where it is shown: 2', async () => {
    const env = { BERTH_CONFIG_DIR: temporaryFolder() }
    const { code, stdout } = await berthInTerminal(
      ['login', '--with-token', '--url', 'https://h.example'],
      { env },
    )
    expect(code).toBe(2)
    expect(stdout).toContain('which is a terminal')
  })

  it('two at once lose nothing', async () => {
    const one = await startInstallation()
    const two = await startInstallation()
    const folder = temporaryFolder()
    const env = { BERTH_CONFIG_DIR: folder }
    const ended = await Promise.all(
      [one, two, one, two].map(({ peer }, i) =>
        berth(['login', '--with-token', '--url', peer.url], { env, stdin: `berth_pat_${i}` }),
      ),
    )
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0])
    expect(Object.keys(read(folder)).sort()).toEqual([one.peer.url, two.peer.url].sort())
    expect(readdirSync(folder)).toEqual(['credentials.json'])
  })
})

describe('device login', () => {
  const started = {
    device_code: 'dc_secret',
    user_code: 'WDJB-MJHT',
    verification_uri: 'https://deploy.example.com/device',
    verification_uri_complete: 'https://deploy.example.com/device?code=WDJB-MJHT',
    expires_in: 900,
    interval: 5,
  }
  const tokens = {
    access_token: 'berth_at_secret',
    token_type: 'Bearer',
    expires_in: 2_592_000,
    refresh_token: 'berth_rt_secret',
    scope: 'read deploy write ssh admin',
  }
  const oauth = (error: string) => ({
    status: 400,
    json: { error, error_description: `It is ${error}.` },
  })
  const begin = async (...polls: Scripted[]) => {
    const { peer } = await startInstallation()
    peer.script('POST /api/oauth/device_authorization', { json: started })
    peer.script('POST /api/oauth/token', ...polls)
    const folder = temporaryFolder()
    const args = ['login', '--scope', 'admin', '--name', 'box', '--url', peer.url]
    const ended = await berth(args, { env: { BERTH_CONFIG_DIR: folder } })
    return { peer, folder, ended }
  }

  it('shows address and code, polls until it is approved, stores both tokens, prints none', async () => {
    const pending: Scripted[] = [oauth('authorization_pending'), 'drop', oauth('slow_down')]
    const { peer, folder, ended } = await begin(...pending, { status: 503 }, { json: tokens })
    expect(ended.code, ended.stderr).toBe(0)
    expect(ended.stderr).toContain('First copy your one-time code: WDJB-MJHT\n')
    expect(ended.stderr).toContain('Open https://deploy.example.com/device in any browser')
    expect(ended.stderr).toContain('Logged in to')
    expect(ended.stdout + ended.stderr).not.toContain('secret')
    const [start] = peer.asked('POST /api/oauth/device_authorization')
    expect(Object.fromEntries(new URLSearchParams(start?.body))).toEqual({
      client_id: 'berth-cli',
      scope: 'read deploy write ssh admin',
      device_name: 'box',
    })
    expect(start?.headers.authorization).toBeUndefined()
    expect(peer.asked('POST /api/oauth/token')).toHaveLength(5)
    expect(statSync(join(folder, 'credentials.json')).mode & 0o777).toBe(0o600)
    expect(read(folder)[peer.url]).toMatchObject({
      access_token: 'berth_at_secret',
      refresh_token: 'berth_rt_secret',
    })
  })

  it.runIf(process.platform === 'linux').each([
    ['at a desktop', [], '1 https://deploy.example.com/device?code=WDJB-MJHT\n'],
    ['with --no-browser', ['--no-browser'], undefined],
  ])('%s: the page opens or not, and nothing waits for it', async (_, more, opened) => {
    const { peer } = await startInstallation()
    peer.script('POST /api/oauth/device_authorization', { json: started })
    const answers: Scripted[] = [oauth('authorization_pending'), { json: tokens }]
    peer.script('POST /api/oauth/token', ...answers)
    const folder = temporaryFolder()
    const seen = join(folder, 'seen')
    // a browser that never exits must not block the login
    const fake = `#!/bin/sh\nprintf '%s %s\\n' "$#" "$*" > '${seen}.part'\nmv '${seen}.part' '${seen}'\n`
    writeFileSync(join(folder, 'xdg-open'), `${fake}exec sleep 5\n`, { mode: 0o755 })
    const env = {
      BERTH_CONFIG_DIR: join(folder, 'config'),
      PATH: `${folder}:${process.env.PATH}`,
      DISPLAY: ':0',
    }
    const ended = await berthInTerminal(['login', '--url', peer.url, ...more], { env })
    expect(ended.code, ended.stdout).toBe(0)
    expect(ended.stdout).toContain(opened ? 'Your browser opens' : 'in any browser')
    if (opened) await vi.waitFor(() => expect(readFileSync(seen, 'utf8')).toBe(opened), 10_000)
    else expect(existsSync(seen)).toBe(false)
  })

  it('no browser at all is no error', async () => {
    const { peer } = await startInstallation()
    peer.script('POST /api/oauth/device_authorization', { json: started })
    peer.script('POST /api/oauth/token', { json: tokens })
    const folder = temporaryFolder()
    const env = { BERTH_CONFIG_DIR: folder, PATH: folder, DISPLAY: ':0' }
    const ended = await berthInTerminal(['login', '--url', peer.url], { env })
    expect(ended.code, ended.stdout).toBe(0)
  })

  it.each([
    ['access_denied', 4, 'the login was denied in the browser'],
    ['expired_token', 4, 'the login was not approved in time'],
    ['invalid_grant', 1, 'It is invalid_grant.'],
  ])('%s: %i, and nothing is stored', async (error, code, message) => {
    const { folder, ended } = await begin(oauth('authorization_pending'), oauth(error))
    expect(ended.code).toBe(code)
    expect(ended.stderr).toContain(message)
    expect(readdirSync(folder)).toEqual([])
  })

  it('a server without it says how else: 1', async () => {
    const { peer } = await startInstallation()
    const { code, stderr } = await berth(['login', '--url', peer.url], {
      env: { BERTH_CONFIG_DIR: temporaryFolder() },
    })
    expect(code).toBe(1)
    expect(stderr).toContain('hint:  with a token: berth login --with-token')
  })

  it('a login that cannot be revoked is forgotten all the same, with a warning', async () => {
    const { peer, folder } = await begin({ json: tokens })
    await peer.stop()
    const { code, stderr } = await berth(['logout'], { env: { BERTH_CONFIG_DIR: folder } })
    expect(code).toBe(0)
    expect(stderr).toContain('could not be told')
    expect(read(folder)).toEqual({})
    await peer.start()
  })
})

it('credentials that others can read are refused: 4, with what to type', async () => {
  const { folder, env } = await loggedIn()
  chmodSync(join(folder, 'credentials.json'), 0o644)
  const { code, stderr } = await berth(['projects'], { env })
  expect(code).toBe(4)
  expect(stderr).toContain(`hint:  chmod 600 '${join(folder, 'credentials.json')}'`)
})

it('the installation of the last login is meant when none is named; --url is for one command', async () => {
  const { peer, env } = await loggedIn()
  const other = await startInstallation()
  other.peer.script('GET /api/me', { json: me({ name: 'Grace Hopper' }) })
  const args = ['--with-token', '--url', other.peer.url]
  await berth(['login', ...args], { env, stdin: 'berth_pat_other' })
  expect((await berth(['whoami'], { env })).stdout).toContain('Grace Hopper')
  expect((await berth(['whoami', '--url', peer.url], { env })).stdout).toContain('Ada Lovelace')
  expect((await berth(['whoami'], { env })).stdout).toContain('Grace Hopper')
  const host = new URL(peer.url).host
  expect((await berth(['context', 'use', host], { env })).stderr).toContain(`now go to ${peer.url}`)
  expect((await berth(['whoami'], { env })).stdout).toContain('Ada Lovelace')
  const listed = await berth(['context'], { env })
  expect(listed.stdout).toContain(`${peer.url}\tada@example.com\tcurrent\n`)
  expect((await berth(['context', 'use', 'nope.example.com'], { env })).code).toBe(5)
  // several are known, so a change names the one that it changes
  peer.script('POST /api/environments/101/tasks', { status: 201, json: task('queued') })
  const deployed = await berth(['deploy', '-p', 'shop', '-e', 'pr-42'], { env })
  expect([deployed.code, deployed.stderr]).toEqual([
    0,
    expect.stringContaining(`Control plane: ${peer.url}\n`),
  ])
  expect((await berth(['envs', '-p', 'shop'], { env })).stderr).not.toContain('Control plane')
  expect(peer.requests.every((one) => one.headers.authorization === 'Bearer berth_pat_mine')).toBe(
    true,
  )
  const removed = await berth(['context', 'remove', host], { env })
  expect([removed.code, removed.stderr]).toEqual([
    0,
    expect.stringContaining(`Commands now go to ${other.peer.url}`),
  ])
  expect((await berth(['whoami'], { env })).stdout).toContain('Grace Hopper')
})

describe('logout', () => {
  it('deletes the entry, and only that', async () => {
    const { peer, folder, env } = await loggedIn()
    const file = {
      ...read(folder),
      'https://other.example': { ...read(folder)[peer.url], used_at: '' },
    }
    writeFileSync(join(folder, 'credentials.json'), JSON.stringify(file), { mode: 0o600 })
    const { code, stderr } = await berth(['logout'], { env })
    expect(code).toBe(0)
    expect(stderr).toContain(`Logged out of ${peer.url}`)
    expect(Object.keys(read(folder))).toEqual(['https://other.example'])
    await berth(['logout', '--all'], { env })
    expect(read(folder)).toEqual({})
    expect((await berth(['whoami'], { env })).code).toBe(4)
    expect((await berth(['logout'], { env })).code).toBe(0)
  })

  it('makes no file where there was none', async () => {
    const folder = temporaryFolder()
    await berth(['logout'], { env: { BERTH_CONFIG_DIR: folder } })
    expect(existsSync(join(folder, 'credentials.json'))).toBe(false)
  })
})

describe('whoami', () => {
  it('on a terminal: who, where, which token, which organizations', async () => {
    const { env } = await startInstallation({ NO_COLOR: '1' })
    const { code, stdout } = await berthInTerminal(['whoami'], { env })
    expect(code).toBe(0)
    expect(stdout).toContain(`Ada Lovelace <ada@example.com>  at ${env.BERTH_URL} (v1.15.0)`)
    expect(stdout).toContain('Token    personal "ci", scopes read deploy, expires in ')
    expect(stdout).toMatch(/ORG {3}NAME {3}ROLE {4}PROJECTS\r\n1 {5}Acme {3}admin {3}4/)
  })

  it('-o takes a slug', async () => {
    const { peer, env } = await startInstallation()
    expect((await berth(['projects', '-o', 'acme'], { env })).code).toBe(0)
    expect(peer.asked('GET /api/projects')[0]?.headers['x-service-organization']).toBe('1')
    expect((await berth(['projects', '-o', 'nobody'], { env })).code).toBe(5)
  })
})
