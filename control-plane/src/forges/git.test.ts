// Reading a repository: what it reports, what it never starts, where it stops.
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { LOOKS, Sensitive } from '@berth/shared'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type GitServer, startGitServer } from '../../../scripts/git-server.ts'
import { createGuard } from './addresses.ts'
import { Git } from './git.ts'
import { explainLook, parseRefs } from './git-messages.ts'

let folder: string
let host: GitServer
let repository: string
const git = (...args: string[]): string =>
  execFileSync('git', ['-C', repository, '-c', 'user.name=t', '-c', 'user.email=t@e.x', ...args], {
    encoding: 'utf8',
  }).trim()

const guard = createGuard({ privateHosts: [], allowLoopback: true })
const rules = { allowFile: true, allowLoopbackHttp: true }
const open = (over: object = {}): Git => {
  const dataDir = mkdtempSync(join(folder, 'data-'))
  return new Git({ dataDir, guard, rules, ...over })
}
const request = (url: string) => ({
  projectId: 7,
  url,
  publicKey: 'ssh-ed25519 AAAA shop@berth',
  deployKey: new Sensitive<Uint8Array>(Buffer.from('a key')),
  trusted: null,
})

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'berth-look-'))
  repository = join(folder, 'repos', 'shop.git')
  mkdirSync(repository, { recursive: true })
  execFileSync('git', ['init', '--quiet', '-b', 'main', repository])
  writeFileSync(join(repository, '.service.yml'), 'manual: { deploy: [ "true" ] }\n')
  git('add', '.')
  git('commit', '--quiet', '-m', 'one')
  git('branch', 'checkout-v2')
  git('update-ref', 'refs/pull/42/head', 'HEAD')
  git('tag', 'v1')
  host = await startGitServer(join(folder, 'repos'))
})
afterAll(async () => {
  await host.close()
  rmSync(folder, { recursive: true, force: true })
})

describe('a look', () => {
  test.each(['http', 'file'])(
    'tells branches, heads of pull requests and the default branch over %s',
    async (how) => {
      const url = how === 'http' ? `${host.url}/shop.git` : `file://${repository}`
      const look = await open().lookAtRepository(request(url))
      const sha = git('rev-parse', 'HEAD')
      expect(look).toEqual({
        ok: true,
        defaultBranch: 'main',
        refs: new Map([
          ['refs/heads/checkout-v2', sha],
          ['refs/heads/main', sha],
          ['refs/pull/42/head', sha],
        ]),
      })
    },
  )

  test('reads .service.yml of a commit, and tells one that is missing or a link', async () => {
    const looker = open()
    const at = (sha: string) => looker.readServiceFile({ ...request(`${host.url}/shop.git`), sha })
    const there = await at(git('rev-parse', 'main'))
    expect(there).toEqual({ ok: true, content: Buffer.from('manual: { deploy: [ "true" ] }\n') })
    git('switch', '--quiet', '-c', 'linked')
    rmSync(join(repository, '.service.yml'))
    execFileSync('ln', ['-s', '/etc/passwd', join(repository, '.service.yml')])
    git('add', '-A')
    git('commit', '--quiet', '-m', 'link')
    expect(await at(git('rev-parse', 'linked'))).toEqual({ ok: true, content: undefined })
    git('rm', '--quiet', '.service.yml')
    git('commit', '--quiet', '-m', 'none')
    expect(await at(git('rev-parse', 'linked'))).toEqual({ ok: true, content: undefined })
    git('switch', '--quiet', 'main')
    git('branch', '--quiet', '-D', 'linked')
  })

  test('lists the newest commits of a branch, without files', async () => {
    git('switch', '--quiet', '-c', 'long')
    for (const subject of ['two', 'three']) git('commit', '--quiet', '--allow-empty', '-m', subject)
    const commits = git('rev-list', 'long').split('\n')
    const list = (ref: string, most: number) =>
      open().listCommits({ ...request(`${host.url}/shop.git`), ref, most })
    expect(await list('refs/heads/long', 10)).toEqual({ ok: true, commits })
    expect(await list('refs/heads/long', 2)).toEqual({ ok: true, commits: commits.slice(0, 2) })
    expect(await list('refs/heads/none', 2)).toMatchObject({ ok: false })
    git('switch', '--quiet', 'main')
    git('branch', '--quiet', '-D', 'long')
  })

  test('reads the history of a branch with authors and subjects, whatever they contain', async () => {
    git('switch', '--quiet', '-c', 'told')
    const by = 'E\u001b[31mve <eve@example.com>'
    git('commit', '--quiet', '--allow-empty', '--author', by, '-m', 'two\u202e\n\nbody')
    git('commit', '--quiet', '--allow-empty', '-m', `x${'y'.repeat(300)}`)
    const read = (ref: string, most: number) =>
      open().readHistory({ ...request(`${host.url}/shop.git`), ref, most })
    const history = await read('refs/heads/told', 2)
    expect(history).toMatchObject({
      ok: true,
      commits: [
        { sha: git('rev-parse', 'told'), author: 't', subject: `x${'y'.repeat(198)}…` },
        { sha: git('rev-parse', 'told~1'), author: 'Eve', subject: 'two' },
      ],
    })
    const [newest] = history.ok ? history.commits : []
    expect(newest?.at).toBe(Number(git('log', '-1', '--format=%ct', 'told')) * 1_000)
    expect(await read('refs/heads/none', 2)).toMatchObject({ ok: false })
    git('switch', '--quiet', 'main')
    git('branch', '--quiet', '-D', 'told')
  })

  test('lists the files that differ between two commits, without their contents', async () => {
    git('switch', '--quiet', '-c', 'files')
    const base = git('rev-parse', 'HEAD')
    writeFileSync(join(repository, '.service.yml'), 'manual: { deploy: [ "false" ] }\n')
    for (const name of ['a.txt', 'b ü.txt']) writeFileSync(join(repository, name), 'x')
    git('add', '-A')
    git('commit', '--quiet', '-m', 'more')
    const head = git('rev-parse', 'HEAD')
    const compare = (from: string, to: string, most = 10) => {
      const both = { base: from, head: to, most }
      return open().compareTrees({ ...request(`${host.url}/shop.git`), ...both })
    }
    expect(await compare(base, head)).toEqual({
      ok: true,
      files: [
        { change: 'changed', path: '.service.yml' },
        { change: 'added', path: 'a.txt' },
        { change: 'added', path: 'b ü.txt' },
      ],
      isTruncated: false,
    })
    expect(await compare(head, base, 1)).toEqual({
      ok: true,
      files: [{ change: 'changed', path: '.service.yml' }],
      isTruncated: true,
    })
    expect(await compare('0'.repeat(40), head)).toMatchObject({ ok: false })
    await expect(async () => compare('HEAD', head)).rejects.toThrow('full hashes')
    git('switch', '--quiet', 'main')
    git('branch', '--quiet', '-D', 'files')
  })

  test('says what is wrong', async () => {
    expect(await open().lookAtRepository(request(`${host.url}/none.git`))).toMatchObject({
      ok: false,
      code: 'not_found',
    })
    const nobody = await open().lookAtRepository(request('http://127.0.0.1:9/shop.git'))
    expect(nobody).toMatchObject({ ok: false, code: 'unreachable' })
  })

  test('leaves nothing on disk, and clears what a killed process left', async () => {
    const dataDir = mkdtempSync(join(folder, 'data-'))
    mkdirSync(join(dataDir, 'git-sessions', 'p7old'), { recursive: true })
    writeFileSync(join(dataDir, 'git-sessions', 'p7old', 'key'), 'canary')
    const looker = open({ dataDir })
    expect(globSync(join(dataDir, 'git-sessions', '*'))).toEqual([])
    await looker.lookAtRepository(request(`${host.url}/shop.git`))
    expect(existsSync(join(dataDir, 'git-sessions'))).toBe(true)
    expect(globSync(join(dataDir, 'git-sessions', '*'))).toEqual([])
  })

  test('many at once wait for their turn', async () => {
    const looker = open()
    const looks = Array.from({ length: LOOKS.atOnce * 3 }, () =>
      looker.lookAtRepository(request(`${host.url}/shop.git`)),
    )
    expect((await Promise.all(looks)).every((l) => l.ok)).toBe(true)
  })
})

describe('a hostile host', () => {
  const servers: Server[] = []
  afterAll(() => {
    for (const s of servers) {
      s.closeAllConnections()
      s.close()
    }
  })
  async function serve(answer: Parameters<typeof createServer>[1]): Promise<string> {
    const server = createServer(answer as never)
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  test('is not followed elsewhere', async () => {
    const hits: string[] = []
    const inner = await serve((q, r) => {
      hits.push(q.url ?? '')
      r.end()
    })
    const outer = await serve((q, r) => {
      r.writeHead(302, { location: `${inner}${q.url}` }).end()
    })
    const look = await open().lookAtRepository(request(`${outer}/shop.git`))
    expect(look).toMatchObject({ ok: false, code: 'redirected' })
    expect(hits).toEqual([])
  })

  test('is connected to where its name was checked, whatever the name means to git', async () => {
    let hits = 0
    const server = createServer((_q, r) => {
      hits += 1
      r.writeHead(404).end()
    })
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.2', resolve))
    const { port } = server.address() as AddressInfo
    const pinning = createGuard({
      privateHosts: [],
      allowLoopback: true,
      resolve: async () => [{ address: '127.0.0.2', family: 4 }],
    })
    const looker = open({ guard: pinning })
    const look = await looker.lookAtRepository(request(`http://localhost:${port}/shop.git`))
    expect(look).toMatchObject({ ok: false, code: 'not_found' })
    expect(hits).toBeGreaterThan(0)
  })

  test('asks in vain for a password', async () => {
    const url = await serve((_q, r) => {
      r.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
    })
    const look = await open().lookAtRepository(request(`${url}/shop.git`))
    expect(look).toMatchObject({ ok: false, code: 'auth_failed' })
    expect(JSON.stringify(look)).toContain('ssh-ed25519 AAAA shop@berth')
  })

  test('that sends for ever is cut at the bound', async () => {
    const line = `${'a'.repeat(40)} refs/heads/${'x'.repeat(150)}\n`
    const packet = (line.length + 4).toString(16).padStart(4, '0') + line
    const url = await serve((_q, r) => {
      r.setHeader('content-type', 'application/x-git-upload-pack-advertisement')
      r.write('001e# service=git-upload-pack\n0000')
      const chunk = packet.repeat(1_000)
      const more = (): void => {
        while (!r.destroyed && r.write(chunk)) {
          // until the other side stops reading
        }
      }
      r.on('drain', more)
      r.on('error', () => {})
      more()
    })
    const look = await open().lookAtRepository(request(`${url}/shop.git`))
    expect(look).toMatchObject({ ok: false, code: 'too_large' })
  }, 30_000)

  test('a close ends what runs', async () => {
    const url = await serve(() => {})
    const looker = open()
    const look = looker.lookAtRepository(request(`${url}/shop.git`))
    setImmediate(() => looker.close())
    expect(await look).toMatchObject({ ok: false, message: 'The control plane stops.' })
  })
})

describe('nothing is started for', () => {
  const words = [
    '--upload-pack=touch /tmp/x',
    '-oProxyCommand=x',
    'ext::sh -c x',
    'EXT::sh',
    'fd::17',
  ]
  const schemes = [
    'ftp',
    'ftps',
    'git',
    'rsync',
    'javascript',
    'data',
    'gopher',
    'http',
    'HTTP',
    'file',
  ]
  const hosts = [
    '-x',
    'a b',
    'a\nb',
    'a;b',
    '$(x)',
    '`x`',
    'a&b',
    "a'b",
    'a"b',
    '',
    '..',
    'a..b',
    'a|b',
    'a\u0000b',
    '\u202eab',
  ]
  const paths = [
    '/../x',
    '/a/../b',
    '/-x',
    '/a b',
    '/a\nb',
    '/a;b',
    '/$(x)',
    '/%00',
    '/%2e%2e/a',
    '/%0a',
    '/a\u2028b',
    '',
    '/',
    '//',
    '/a\\b',
  ]
  const inside = [
    '127.0.0.1',
    '[::1]',
    '10.0.0.1',
    '169.254.169.254',
    '[::ffff:127.0.0.1]',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '192.168.0.1',
    '[fe80::1]',
    '[fd00::1]',
    '0.0.0.0',
  ]
  const bad = [
    ...words,
    ...schemes.map((s) => `${s}://git.example.com/a.git`),
    ...['https', 'ssh'].flatMap((s) => hosts.map((h) => `${s}://${h}/a.git`)),
    ...['https', 'ssh'].flatMap((s) => paths.map((p) => `${s}://git.example.com${p}`)),
    ...hosts.map((h) => `git@${h}:a.git`),
    ...paths.filter((p) => !/^\/*$/.test(p)).map((p) => `git@git.example.com:${p}`),
    ...['https', 'ssh'].flatMap((s) => inside.map((h) => `${s}://${h}/a.git`)),
    ...inside.filter((h) => !h.startsWith('[')).map((h) => `git@${h}:a.git`),
    ...['u:p', 'token', 'u%3ap'].map((u) => `https://${u}@git.example.com/a.git`),
    ...['0', '65536', 'x', '-1', '22 '].map((p) => `ssh://git.example.com:${p}/a.git`),
    `https://git.example.com/${'a'.repeat(3_000)}`,
    'git.example.com/a.git',
    '/etc/passwd',
    './a',
    '~/a',
    'a',
    '',
    ...words.filter((w) => w.includes(' ')).map((w) => `git@git.example.com:${w}`),
    ...words.map((w) => `https://git.example.com/${w} x`),
    ...[...' ;|&$`"\'<>(){}*?!#^\\'].flatMap((c) => [
      `https://git.example.com/a${c}b.git`,
      `ssh://git@git.example.com/a${c}b.git`,
      `git@git${c}x.example.com:a.git`,
    ]),
    ...['\t', '\r', '\u00a0', '\u200b', '\u2066', '\u001b[0m'].flatMap((c) => [
      `https://git.example.com/a${c}.git`,
      `git@git.example.com:a${c}.git`,
      `${c}https://git.example.com/a.git`,
    ]),
  ]

  test(`${bad.length} bad addresses`, async () => {
    expect(bad.length).toBeGreaterThanOrEqual(200)
    const dataDir = mkdtempSync(join(folder, 'data-'))
    const strict = createGuard({
      privateHosts: [],
      allowLoopback: false,
      resolve: async () => [{ address: '140.82.121.4', family: 4 }],
    })
    const looker = new Git({
      dataDir,
      guard: strict,
      rules: { allowFile: false, allowLoopbackHttp: false },
    })
    for (const url of bad) {
      const look = await looker.lookAtRepository(request(url))
      expect(look, JSON.stringify(url)).toMatchObject({ ok: false, code: 'address_not_allowed' })
    }
    // the folder is created right before a process starts, so none did; the other tests create it
    expect(existsSync(join(dataDir, 'git-sessions'))).toBe(false)
  })

  test('anything but a full commit hash', () => {
    for (const sha of ['main', '-x', 'abc', 'g'.repeat(40), `${'a'.repeat(40)}^{tree}`]) {
      expect(() => open().readServiceFile({ ...request(`${host.url}/shop.git`), sha })).toThrow()
    }
  })
})

describe('words of git', () => {
  test('only refs that can be deployed are kept, and none that could be an option', () => {
    const sha = 'a'.repeat(40)
    const text = [
      `ref: refs/heads/trunk\tHEAD`,
      `${sha}\tHEAD`,
      `${sha}\trefs/heads/main`,
      `${sha}\trefs/heads/--upload-pack=x`,
      `${sha}\trefs/heads/a..b`,
      `${sha}\trefs/heads/\u001b[31m`,
      `${sha}\trefs/merge-requests/3/head`,
      `${sha}\trefs/merge-requests/3/merge`,
      `${sha}\trefs/pull-requests/4/from`,
      `${sha}\trefs/pull/x/head`,
      `${sha}\trefs/tags/v1`,
      `${sha.slice(1)}\trefs/heads/short`,
      'nonsense',
    ].join('\n')
    const { refs, defaultBranch } = parseRefs(text)
    expect(defaultBranch).toBe('trunk')
    expect([...refs.keys()]).toEqual([
      'refs/heads/main',
      'refs/merge-requests/3/head',
      'refs/pull-requests/4/from',
    ])
  })

  test.each([
    ['git@github.com: Permission denied (publickey).', 'auth_failed'],
    ['@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@', 'host_key_changed'],
    ['ERROR: Repository not found.\nfatal: Could not read from remote repository.', 'not_found'],
    ['ssh: connect to host x port 22: Connection timed out', 'timeout'],
    ['ssh: connect to host x port 22: Connection refused', 'unreachable'],
    ["fatal: unable to access 'x': SSL certificate problem: unable to get", 'certificate_invalid'],
    ['something new', 'failed'],
  ])('%s is %s', (text, code) => {
    const context = { host: 'github.com', publicKey: 'ssh-ed25519 KEY', isSsh: true }
    const reported = explainLook(text, context)
    expect(reported.code).toBe(code)
    expect(reported.message).not.toContain('something new')
    if (code === 'auth_failed') expect(reported.message).toContain('ssh-ed25519 KEY')
  })

  test('the only reader of what a host says is this list', () => {
    expect(readFileSync(new URL('./git.ts', import.meta.url), 'utf8')).not.toContain('stderr}')
  })
})
