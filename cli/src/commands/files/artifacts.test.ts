// berth artifacts: what is listed, and that a download is complete or absent, even with hostile servers, names and
// folders.
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { splitName } from '../../client/artifacts/file.ts'
import { run as runProgram } from '../../program/invoke.ts'
import { startBerth } from '../../testing/berth.ts'
import { type Installation, startInstallation } from '../../testing/installation.ts'
import { testIo } from '../../testing/io.ts'
import { problem, type Scripted } from '../../testing/peer.ts'
import { logLine, phase, task } from '../../testing/samples.ts'
import { certificate } from '../../testing/samples-people.ts'

const CONTENT = Buffer.from('order,total\n1,9.90\n')
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const artifact = (over: object = {}) => ({
  id: 3301,
  file_id: '0b6f2c1e-5d7a-4e0b-9c51-7f3a2d8e6b40',
  task_id: 830,
  path: 'exports/orders.csv',
  name: 'orders.csv',
  size_bytes: CONTENT.length,
  sha256: sha256(CONTENT),
  collected_at: '2026-11-15T09:00:00Z',
  expires_at: '2026-11-22T09:00:00Z',
  url: 'https://deploy.example.com/api/artifacts/3301/content',
  ...over,
})

const LIST = 'GET /api/tasks/830/artifacts'
const BYTES = 'GET /api/artifacts/3301/content'
const headers = (bytes = CONTENT) => ({
  'content-type': 'application/octet-stream',
  'content-length': String(bytes.length),
  'repr-digest': `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`,
})
const whole = (_req: unknown, res: ServerResponse) =>
  void res.writeHead(200, headers()).end(CONTENT)
/** Half of it, then the connection breaks. */
const half: Scripted = (_req, res: ServerResponse) => {
  res.writeHead(200, headers())
  res.write(CONTENT.subarray(0, 8), () => res.socket?.destroy())
}

describe('berth artifacts', () => {
  let it_: Installation
  let dir: string
  let bin: string
  beforeEach(async () => {
    it_ = await startInstallation()
    dir = mkdtempSync(join(tmpdir(), 'berth-artifacts-'))
    bin = mkdtempSync(join(tmpdir(), 'berth-artifacts-bin-'))
    // SSH is unreachable, so everything here comes through the control plane
    const noWay =
      "#!/bin/sh\necho 'ssh: connect to host x port 22: Connection refused' >&2\nexit 255\n"
    writeFileSync(join(bin, 'ssh'), noWay, { mode: 0o755 })
    Object.assign(it_.env, { PATH: `${bin}:${process.env.PATH}`, XDG_RUNTIME_DIR: bin })
    it_.peer.script('POST /api/servers/2/ssh', { status: 201, json: certificate() })
    it_.peer.script('GET /api/tasks/830', { json: task('succeeded', { id: 830, type: 'action' }) })
  })
  afterEach(() => {
    for (const one of [dir, bin]) rmSync(one, { recursive: true, force: true })
  })

  async function berth(...args: string[]) {
    const io = testIo({ env: it_.env, cwd: dir })
    const code = await runProgram(args, io)
    return { code, stdout: io.stdout.text, stderr: io.stderr.text, sleeps: io.sleeps }
  }
  const script = (bytes: Scripted[], over: object = {}) => {
    it_.peer.script(LIST, { json: [artifact(over)] })
    it_.peer.script(BYTES, ...bytes)
  }
  const download = (...more: string[]) => berth('artifacts', 'download', '830', ...more)
  const everything = () => readdirSync(dir, { recursive: true }).map(String).toSorted()

  it('lists what a task left, by its number or as the newest of the environment', async () => {
    script([whole])
    it_.peer.script('GET /api/environments/101/tasks', { json: [task('succeeded', { id: 830 })] })
    const named = await berth('artifacts', '830')
    expect(named, named.stderr).toMatchObject({ code: 0 })
    expect(named.stdout).toBe(
      `exports/orders.csv\t19\t${sha256(CONTENT)}\t2026-11-15T09:00:00Z\t2026-11-22T09:00:00Z\thttps://deploy.example.com/api/artifacts/3301/content\n`,
    )
    expect((await berth('artifacts', '-p', 'shop', '-e', 'pr-42')).stdout).toBe(named.stdout)
    expect((await berth('artifacts', 'lst')).code).toBe(2)
  })

  it('writes the whole file below the folder, and says where', async () => {
    script([whole])
    const done = await download('-d', 'out')
    expect(done, done.stderr).toMatchObject({
      code: 0,
      stdout: `${join(dir, 'out/exports/orders.csv')}\n`,
    })
    expect(readFileSync(join(dir, 'out/exports/orders.csv'))).toEqual(CONTENT)
    expect(everything()).toEqual(['out', 'out/exports', 'out/exports/orders.csv'])
    const again = await download('orders.csv', '-d', 'out')
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('exists already')])
    expect((await download('-d', 'out', '--force')).code).toBe(0)
    const unknown = await download('exports/order.csv')
    expect([unknown.code, unknown.stderr]).toEqual([5, expect.stringContaining('no file')])
  })

  describe('several', () => {
    const SEVERAL = 'GET /api/tasks/830/artifacts/content'
    const files = [1, 2, 3].map((n) =>
      artifact({ id: 3300 + n, file_id: `0b6f2c1e-5d7a-4e0b-9c51-7f3a2d8e6b4${n}`, path: `f${n}` }),
    )
    const one = Buffer.concat([
      Buffer.from(`size=${CONTENT.length} sha256=${sha256(CONTENT)}\n`),
      CONTENT,
    ])
    const octets = { 'content-type': 'application/octet-stream' }
    const answer = (...pieces: Buffer[]): Scripted =>
      ((_req, res) => void res.writeHead(200, octets).end(Buffer.concat(pieces))) as Scripted
    beforeEach(() => it_.peer.script(LIST, { json: files }))

    it('come in one answer', async () => {
      it_.peer.script(SEVERAL, (req, res) => {
        expect(req.url).toContain('ids=3301%2C3302%2C3303')
        res.writeHead(200, octets).end(Buffer.concat([one, one, one]))
      })
      const done = await download()
      expect(done, done.stderr).toMatchObject({ code: 0 })
      expect(everything()).toEqual(['f1', 'f2', 'f3'])
      expect(readFileSync(join(dir, 'f3'))).toEqual(CONTENT)
    })

    it('go on in another answer where one broke', async () => {
      const broken: Scripted = (_req, res) => {
        res.writeHead(200, octets)
        res.write(Buffer.concat([one, one.subarray(0, 90)]), () => res.socket?.destroy())
      }
      const rest: Scripted = (req, res) => {
        const part = { ...headers(), 'content-range': 'bytes 11-18/19' }
        expect(req.headers.range).toMatch(/^bytes=\d+-$/)
        const from = Number(/\d+/.exec(req.headers.range ?? '')?.[0])
        part['content-range'] = `bytes ${from}-18/19`
        part['content-length'] = String(19 - from)
        res.writeHead(206, part).end(CONTENT.subarray(from))
      }
      it_.peer.script(SEVERAL, broken, answer(one))
      it_.peer.script('GET /api/artifacts/3302/content', rest)
      it_.peer.script('GET /api/artifacts/3303/content', whole)
      const done = await download()
      expect(done, done.stderr).toMatchObject({ code: 0 })
      expect(everything()).toEqual(['f1', 'f2', 'f3'])
      expect(readFileSync(join(dir, 'f2'))).toEqual(CONTENT)
    })

    it('are asked for one by one where the server knows nothing else', async () => {
      it_.peer.script(SEVERAL, problem('not_found', "Not found, or you don't have access."))
      for (const { id } of files) it_.peer.script(`GET /api/artifacts/${id}/content`, whole)
      const done = await download()
      expect(done, done.stderr).toMatchObject({ code: 0 })
      expect(everything()).toEqual(['f1', 'f2', 'f3'])
    })

    it('leave nothing on the way when the client is told to end', async () => {
      const begun = Promise.withResolvers<void>()
      it_.peer.script(SEVERAL, (_req, res) => {
        res.writeHead(200, octets)
        res.write(Buffer.concat([one, one.subarray(0, 90)]), () => begun.resolve())
      })
      const running = startBerth(['artifacts', 'download', '830'], { env: it_.env, cwd: dir })
      await begun.promise
      for (const endsAt = Date.now() + 20_000; everything().length < 3; ) {
        if (Date.now() > endsAt) throw new Error('the second file did not begin')
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      running.interrupt('SIGTERM')
      expect((await running.ended).code).toBe(143)
      expect(everything().filter((name) => /part/.test(name))).toEqual([])
    })

    it.each<[string, Buffer[], RegExp, string[]]>([
      [
        'gone',
        [one, Buffer.from('error=artifact_gone "It is gone."\n')],
        /f2 .*It is gone/,
        ['f1'],
      ],
      ['nonsense', [one, Buffer.from('error=x\n')], /did not say what it sends/, ['f1']],
      ['another', [Buffer.from(`size=1 sha256=${'0'.repeat(64)}\nx`)], /than it listed/, []],
      ['wrong bytes', [one.subarray(0, -1), Buffer.from('x'), one, one], /SHA-256 differs/, []],
      ['too much', [one, one, one, one], /more came/, ['f1', 'f2']],
    ])('%s: what is there is whole', async (_, pieces, sentence, there) => {
      it_.peer.script(SEVERAL, answer(...pieces))
      const done = await download()
      expect(done.code).toBe(1)
      expect(done.stderr).toMatch(sentence)
      expect(everything()).toEqual(there)
    })
  })

  it('resumes where it broke, and begins anew where it cannot', async () => {
    const rest: Scripted = (req, res) => {
      expect(req.headers).toMatchObject({
        range: 'bytes=8-',
        'if-range': `"${sha256(CONTENT)}"`,
      })
      const part = { ...headers(), 'content-length': '11', 'content-range': 'bytes 8-18/19' }
      res.writeHead(206, part).end(CONTENT.subarray(8))
    }
    script([half, rest])
    expect((await download('-d', 'a')).code).toBe(0)
    expect(readFileSync(join(dir, 'a/exports/orders.csv'))).toEqual(CONTENT)
    script([half, whole])
    expect((await download('-d', 'b')).code).toBe(0)
    expect(readFileSync(join(dir, 'b/exports/orders.csv'))).toEqual(CONTENT)
  })

  it.each<[string, Scripted[], RegExp, object?]>([
    ['gone', [problem('artifact_gone', 'It is gone.')], /cannot be fetched: It is gone/],
    ['expired', [problem('artifact_expired', 'It was kept.')], /cannot be fetched: It was kept/],
    ['changed', [problem('artifact_changed', 'It changed.')], /cannot be fetched: It changed/],
    ['offline', [problem('server_offline', 'It is offline.')], /cannot be fetched: It is offline/],
    ['silent', [problem('server_timeout', 'No answer.')], /cannot be fetched: No answer/],
    ['cut each time', [half], /.+/],
    [
      'an empty 200',
      [(_req, res) => void res.writeHead(200, headers(Buffer.alloc(0))).end()],
      /another file/,
    ],
    [
      'a short 200 without a length',
      [
        (_req, res) =>
          void res
            .writeHead(200, { 'repr-digest': headers()['repr-digest'] })
            .end(CONTENT.subarray(0, 9)),
      ],
      /another file/,
    ],
    [
      'other bytes of the same length',
      [(_req, res) => void res.writeHead(200, headers()).end(Buffer.alloc(CONTENT.length, 'x'))],
      /SHA-256 differs/,
    ],
    ['another file than was listed', [whole], /another file/, { sha256: 'a'.repeat(64) }],
  ])('%s: exit 1, a sentence, and no file', async (_, replies, message, over = {}) => {
    script(replies, over)
    const done = await download('-d', 'out')
    expect(done.code).toBe(1)
    expect(done.stderr).toMatch(message)
    expect(everything().filter((name) => /csv|part/.test(name))).toEqual([])
  })

  it('asks again where a proxy has nobody to ask, or it asked too often', async () => {
    const often = problem('rate_limited', 'Too many requests.')
    script([
      { status: 502, text: 'bad gateway' },
      { ...often, headers: { ...often.headers, 'retry-after': '2' } },
      whole,
    ])
    const done = await download()
    expect(done, done.stderr).toMatchObject({ code: 0, sleeps: [300, 2_000] })
  })

  it('takes no packed answer: such a one does not say how long it is', async () => {
    const packing: Scripted = (req, res) => {
      if (!/gzip/.test(req.headers['accept-encoding'] ?? '')) return whole(req, res)
      const { 'content-length': _, ...others } = headers()
      res.writeHead(200, { ...others, 'content-encoding': 'gzip' }).end(gzipSync(CONTENT))
    }
    script([packing])
    const done = await download()
    expect(done, done.stderr).toMatchObject({ code: 0 })
  })

  it('says what this machine refused', async () => {
    script([whole])
    writeFileSync(join(dir, 'out'), '')
    const done = await download('-d', 'out/below')
    expect([done.code, done.stderr]).toEqual([
      1,
      `error: ${join(dir, 'out/below')} cannot be written to (ENOTDIR)\n`,
    ])
  })

  it('writes nothing for names that lead elsewhere', async () => {
    for (const path of [
      '../up',
      '/etc/cron.d/x',
      'a/../../x',
      'a//b',
      'a\\b',
      'c:x',
      'a\u001b[2J',
      'NUL.txt',
      'x. ',
      '.',
      '',
    ]) {
      expect(() => splitName(path), path).toThrow('not one for a file')
      script([whole], { path, name: 'x' })
      expect((await download()).code, path).toBe(1)
    }
    expect(splitName('a b/ünïcode.csv')).toEqual(['a b', 'ünïcode.csv'])
    expect(everything()).toEqual([])
  })

  it('follows no link below the folder', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'berth-outside-'))
    writeFileSync(join(outside, 'orders.csv'), 'mine')
    mkdirSync(join(dir, 'out'))
    symlinkSync(outside, join(dir, 'out/exports'))
    script([whole])
    const done = await download('-d', 'out', '--force')
    expect([done.code, done.stderr]).toEqual([1, expect.stringContaining('is not a folder')])
    // a link at the file's own path is replaced, not followed
    rmSync(join(dir, 'out/exports'))
    mkdirSync(join(dir, 'out/exports'))
    symlinkSync(join(outside, 'orders.csv'), join(dir, 'out/exports/orders.csv'))
    expect((await download('-d', 'out', '--force')).code).toBe(0)
    expect(readFileSync(join(dir, 'out/exports/orders.csv'))).toEqual(CONTENT)
    expect(readFileSync(join(outside, 'orders.csv'), 'utf8')).toBe('mine')
    rmSync(outside, { recursive: true })
  })

  it('actions run --download waits, then fetches what it left', async () => {
    const run = (status: string) =>
      task(status, {
        id: 830,
        type: 'action',
        action: 'seed',
        phases: [phase('run', status === 'queued' ? 'pending' : status)],
      })
    it_.peer.script('POST /api/environments/101/actions/seed/tasks', {
      status: 201,
      json: run('queued'),
    })
    it_.peer.script('GET /api/tasks/830', { json: run('succeeded') })
    it_.peer.script('GET /api/tasks/830/log', {
      text: logLine(1, 'done'),
      headers: { 'content-type': 'application/x-ndjson' },
    })
    script([whole])
    const where = ['-p', 'shop', '-e', 'pr-42']
    const done = await berth('actions', 'run', 'seed', ...where, '--download', './out')
    expect(done, done.stderr).toMatchObject({ code: 0 })
    expect(done.stderr).toContain('exports/orders.csv   19 B')
    expect(existsSync(join(dir, 'out/exports/orders.csv'))).toBe(true)
  })
})
