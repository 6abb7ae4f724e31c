import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { berth, temporaryFolder } from '../testing/berth.ts'
import { startInstallation } from '../testing/installation.ts'
import { problem } from '../testing/peer.ts'
import { me, project } from '../testing/samples.ts'
import { apiPath, typedValue } from './api.ts'

it.each([
  ['me', '/api/me'],
  ['/me', '/api/me'],
  ['api/me', '/api/me'],
  ['/api/me?x=1', '/api/me?x=1'],
])('%s is %s', (word, path) => expect(apiPath(word)).toBe(path))

it.each(['https://evil.example/api/me', '//evil.example/me', 'a/../../x', 'http:evil'])(
  '%s is refused',
  (word) => expect(() => apiPath(word)).toThrow(expect.objectContaining({ exitCode: 2 })),
)

it('fields are typed', async () => {
  const file = join(temporaryFolder(), 'text')
  writeFileSync(file, 'from a file\n')
  const values = ['true', 'false', 'null', '42', '-1', '007', '1.5', 'text', '', `@${file}`]
  expect(await Promise.all(values.map(typedValue))).toEqual([
    true,
    false,
    null,
    42,
    -1,
    '007',
    '1.5',
    'text',
    '',
    'from a file\n',
  ])
})

describe('berth api', () => {
  it('prints what the server said', async () => {
    const { env } = await startInstallation()
    const { code, stdout } = await berth(['api', 'me'], { env })
    expect([code, JSON.parse(stdout)]).toEqual([0, me()])
  })

  it('-f makes a POST with a body and a key; with GET a query', async () => {
    const { peer, env } = await startInstallation()
    peer.script('POST /api/x', { status: 201, json: { ok: true } })
    peer.script('GET /api/x', { json: [] })
    await berth(['api', 'x', '-f', 'a=1', '-f', 'b=c=d'], { env })
    const [post] = peer.asked('POST /api/x')
    expect(JSON.parse(post?.body ?? '')).toEqual({ a: 1, b: 'c=d' })
    expect(post?.headers['idempotency-key']).toBeTruthy()
    await berth(['api', 'x', '-X', 'get', '-f', 'a=1'], { env })
    expect(peer.asked('GET /api/x')[0]?.query.get('a')).toBe('1')
  })

  it('--input - sends stdin; what is no JSON is not sent: 2', async () => {
    const { peer, env } = await startInstallation()
    peer.script('PATCH /api/x', { json: {} })
    const args = ['api', 'x', '-X', 'PATCH', '--input', '-']
    expect((await berth(args, { env, stdin: '{"deep":{"a":[1]}}' })).code).toBe(0)
    expect(JSON.parse(peer.asked('PATCH /api/x')[0]?.body ?? '')).toEqual({ deep: { a: [1] } })
    expect((await berth(args, { env, stdin: '{' })).code).toBe(2)
    expect(peer.asked('PATCH /api/x')).toHaveLength(1)
  })

  it('--paginate joins the pages, -i shows the headers', async () => {
    const { peer, env } = await startInstallation()
    const link = { link: `<${peer.url}/api/projects?cursor=2>; rel="next"` }
    peer.script(
      'GET /api/projects',
      { json: [project()], headers: link },
      { json: [project({ id: 13 })] },
    )
    const { stdout } = await berth(['api', 'projects', '--paginate'], { env })
    expect(JSON.parse(stdout).map((one: { id: number }) => one.id)).toEqual([12, 13])
    const shown = await berth(['api', 'me', '-i'], { env })
    expect(shown.stdout).toMatch(/^HTTP 200\n[^{]*berth-version: 1\.15\.0\n[^{]*\n\n\{/)
  })

  it.each([
    ['not_found', 5],
    ['token_expired', 4],
    ['name_taken', 6],
    ['internal_error', 1],
  ] as const)('%s: the body on stdout, exit %d', async (reason, exitCode) => {
    const { peer, env } = await startInstallation()
    peer.script('GET /api/x', problem(reason, 'Because.'))
    const { code, stdout, stderr } = await berth(['api', 'x'], { env })
    expect(code).toBe(exitCode)
    expect(JSON.parse(stdout).code).toBe(reason)
    expect(stderr).toMatch(/^error: Because\./)
  })

  it('204 prints nothing', async () => {
    const { peer, env } = await startInstallation()
    peer.script('DELETE /api/x', { status: 204 })
    const { code, stdout } = await berth(['api', 'x', '-X', 'DELETE'], { env })
    expect([code, stdout]).toEqual([0, ''])
  })

  it.each([
    [['-X', 'BREW']],
    [['-f', 'novalue']],
    [['--input', 'file']],
    [['-f', 'a=1', '--paginate']],
  ])('%j: 2', async (flags) => {
    const { env } = await startInstallation()
    expect((await berth(['api', 'me', ...flags], { env })).code).toBe(2)
  })
})
