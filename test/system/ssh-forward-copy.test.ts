// Forwarded ports and copied files on a server with a real sshd: what reaches a service, what is refused, and what a
// hostile environment cannot make of either. Every refusal has an accepted control beside it.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
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
import { createServer as createHttp } from 'node:http'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Channels } from '@berth/shared/ssh'
import { AttemptState, Recipe } from '@berth/shared/wire'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, eventually } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { freePort } from '../fixtures/server/service.ts'
import { SshFixture } from '../fixtures/sshd/server.ts'

const SECRET = 'tr0ub4dor-and-3'
const SERVER = `import { createServer } from 'node:http'
createServer((request, response) => {
  if (request.url === '/large') return response.end(Buffer.alloc(3_000_000, 'x'))
  request.on('data', () => {}).on('end', () => response.end('served ' + request.url))
}).listen(process.env.PORT, '127.0.0.1')
process.on('SIGTERM', () => process.exit(0))
`
const DOCKER = `
docker:
  services:
    web: { image: berth-test/busybox, command: 'mkdir -p /www; echo from-web >/www/index.html; exec httpd -f -p 8080 -h /www', port: 8080, public: false }
    job: { image: berth-test/busybox, command: 'exec sleep 1000' }
`

let fixture: SshFixture
let port: number
const folder = mkdtempSync(join(tmpdir(), 'berth-forward-'))
const open: (() => void)[] = []

async function succeeded(deployment: Promise<Deployment>): Promise<Deployment> {
  const done = await deployment
  const verdict = await done.verdict()
  expect(verdict, done.log() + done.runnerLog()).toMatchObject({ state: AttemptState.SUCCEEDED })
  return done
}

/** A client of the session: local ports, one for each target. */
async function forward(words: string[], grant: object = {}, serial = fixture.nextSerial()) {
  const certificate = await fixture.honest({ can: ['forward'], ...grant }, { serial })
  const { child, ended } = fixture.spawn({ certificate, words: ['forward', ...words] })
  const refusals: string[] = []
  const channels = new Channels({ send: (frame) => void child.stdin?.write(frame) })
  child.stdout?.on('data', (chunk: Buffer) => channels.receive(chunk))
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  const over = ended.finally(() => channels.destroy())
  const listen = async (index: number): Promise<number> => {
    const server: Server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
      channels.open(index, socket, (reason) => refusals.push(reason)),
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    open.push(() => server.close())
    return (server.address() as AddressInfo).port
  }
  open.push(() => child.kill())
  await Promise.race([over, eventually(() => said.includes('ready\n') || undefined, 'ready')])
  return { child, channels, listen, refusals, serial, ended: over }
}

const get = async (at: number, path = '/'): Promise<string> => {
  const response = await fetch(`http://127.0.0.1:${at}${path}`, {
    headers: { connection: 'close' },
  })
  return response.text()
}

const pathOf = (...argv: string[]): string =>
  Buffer.from(JSON.stringify(argv)).toString('base64url')

const copy = async (words: string[], over: { grant?: object; input?: Buffer } = {}) => {
  const certificate = await fixture.honest({ can: ['copy'], ...over.grant })
  const { child, ended } = fixture.spawn({ certificate, words: ['copy', ...words] })
  if (over.input) child.stdin?.end(over.input)
  return ended
}

/** An archive as the client makes it. */
const archive = (make: (dir: string) => void, ...what: string[]): Buffer => {
  const dir = mkdtempSync(join(folder, 'pack-'))
  make(dir)
  return execFileSync('tar', ['-cf', '-', '-C', dir, ...what])
}

const unpacked = (bytes: string): string => {
  const dir = mkdtempSync(join(folder, 'unpack-'))
  execFileSync('tar', ['-xf', '-', '-C', dir], { input: Buffer.from(bytes, 'latin1') })
  return dir
}

const reported = () =>
  fixture.facts().flatMap(({ body }) => (body.case === 'sshSession' ? [body.value] : []))

describe.skipIf(missing('sshd') || !isRoot)('of a manual environment', () => {
  beforeAll(async () => {
    fixture = await SshFixture.open()
    port = await freePort()
    const repository = fixture.host.repository()
    const yaml = `manual: { deploy: ['echo $TOKEN > secret.txt'], services: { web: { port: ${port}, public: false, run: exec ${fixture.host.node} server.mjs } } }\n`
    repository.commit({ '.service.yml': yaml, 'server.mjs': SERVER, 'hello.txt': 'hello\n' })
    await succeeded(fixture.host.deploy(repository, { variables: { TOKEN: SECRET } }))
  })
  afterEach(() => {
    for (const close of open.splice(0)) close()
  })
  afterAll(async () => {
    await fixture.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('the port of a service is reached, by many at once, and large answers are whole', async () => {
    const { listen, channels, child, ended } = await forward([`web:${port}`])
    const local = await listen(0)
    expect(await get(local, '/a')).toBe('served /a')
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => get(local, `/${n}`)))
    expect(all).toEqual(all.map((_, n) => `served /${n}`))
    const large = await get(local, '/large')
    expect([large.length, /^x+$/.test(large)]).toEqual([3_000_000, true])
    await eventually(() => channels.count === 0, 'the end of every connection')
    child.stdin?.end()
    expect(await ended).toMatchObject({ code: 0 })
    await eventually(() => fixture.sessions.length === 0, 'the end of the session')
    expect(reported().at(-1)).toMatchObject({
      verb: `forward web:${port}`,
      endReason: 'input_ended',
    })
    expect(reported().at(-1)?.sessionId).toMatch(/^[0-9a-f]{16}$/)
  })

  test('no other port of the server is reached: not sshd, not another service, not a neighbour', async () => {
    const other = createHttp((_, response) => response.end('not yours')).listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port: foreign } = other.address() as AddressInfo
    try {
      for (const word of [
        `web:${foreign}`,
        `-:${foreign}`,
        `web:${fixture.settings.ssh.own.port}`,
      ]) {
        const { ended } = await forward([word])
        const done = await ended
        expect([done.code, done.err], word).toEqual([44, `berth: The port of web is ${port}.\n`])
      }
      const absent = await (await forward([`db:${port}`])).ended
      expect(absent.err).toBe(`berth: db has no port. These have: web:${port}.\n`)
    } finally {
      other.close()
    }
  })

  test('requests that are none are refused', async () => {
    for (const words of [
      [],
      ['web'],
      ['web:0'],
      ['web:65536'],
      [`127.0.0.1:${port}`],
      [`web:${port}:1`],
      Array.from({ length: 17 }, () => `web:${port}`),
    ]) {
      const { code } = await (await forward(words)).ended
      expect([words, code]).toEqual([words, 77])
    }
    const shell = await (await forward([`web:${port}`], { can: ['shell', 'exec', 'copy'] })).ended
    expect(shell).toMatchObject({
      code: 77,
      err: 'berth: This certificate does not allow forward.\n',
    })
    const elsewhere = await (await forward([`web:${port}`], { environment: 99 })).ended
    expect(elsewhere).toMatchObject({ code: 44, err: expect.stringMatching(/Nothing of this env/) })
  })

  test('a target outside of the request, and frames that break the rules', async () => {
    const { listen, refusals } = await forward([`web:${port}`])
    const second = await listen(1)
    await expect(get(second)).rejects.toThrow()
    expect(refusals).toEqual(['The session has no such target.'])
    const { child, ended } = await forward([`web:${port}`])
    child.stdin?.write(Buffer.from([9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]))
    expect(await ended).toMatchObject({
      code: 77,
      err: expect.stringMatching(/a frame is too long/),
    })
  })

  test('a port that another account holds too is not reached, until it leaves', async () => {
    const { listen, refusals } = await forward([`web:${port}`])
    const local = await listen(0)
    const thief = createServer((socket) => socket.end('stolen'))
    thief.listen(port, '127.0.0.2')
    await once(thief, 'listening')
    await expect(get(local)).rejects.toThrow()
    expect(refusals).toEqual([`web does not listen on port ${port}.`])
    thief.close()
    await once(thief, 'close')
    expect(await get(local, '/b')).toBe('served /b')
  })

  test('ends with its certificate, in the middle of a connection', async () => {
    const { listen, serial, ended } = await forward([`web:${port}`])
    const local = await listen(0)
    const socket = connect(local, '127.0.0.1')
    const closed = once(socket, 'close')
    socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n')
    await once(socket, 'connect')
    await eventually(() => fixture.sessions.length === 1, 'the session')
    await fixture.trust([fixture.ca], [serial])
    expect((await ended).code).not.toBe(0)
    await closed
    expect(fixture.sessions).toEqual([])
    expect(reported().at(-1)).toMatchObject({ serial, endReason: 'revoked' })
  })

  test('a file and a folder come out unchanged, also those that contain a secret value', async () => {
    const file = await copy(['-', 'from', pathOf('hello.txt')])
    expect(file.code, file.err).toBe(0)
    expect(readFileSync(join(unpacked(file.out), 'hello.txt'), 'utf8')).toBe('hello\n')
    const all = await copy(['web', 'from', pathOf('.')])
    const dir = unpacked(all.out)
    expect(readdirSync(dir)).toEqual(expect.arrayContaining(['hello.txt', 'secret.txt']))
    expect(readFileSync(join(dir, 'secret.txt'), 'utf8')).toBe(`${SECRET}\n`)
    await eventually(() => fixture.sessions.length === 0, 'the end of the session')
    expect(reported().at(-1)).toMatchObject({ verb: 'copy from web:.', endReason: 'done' })
    const absent = await copy(['-', 'from', pathOf('nothing.txt')])
    expect(absent).toMatchObject({ code: 44, out: '', err: 'berth: nothing.txt does not exist.\n' })
  })

  test('files go in: by name, into a folder, in place of another; an incomplete one leaves nothing', async () => {
    const { shared } = environmentPaths(fixture.settings, 1)
    const bytes = archive((dir) => writeFileSync(join(dir, 'file'), 'new\n'), 'file')
    const put = (path: string, input = bytes) =>
      copy(['-', 'file', pathOf(path, 'seed.sql')], { input })
    expect(await put(join(shared, 'one.txt'))).toMatchObject({ code: 0, err: '' })
    expect(await put(shared)).toMatchObject({ code: 0 })
    expect(readFileSync(join(shared, 'one.txt'), 'utf8')).toBe('new\n')
    expect(readFileSync(join(shared, 'seed.sql'), 'utf8')).toBe('new\n')
    const before = readdirSync(shared).toSorted()
    const part = await put(join(shared, 'one.txt'), bytes.subarray(0, 514))
    expect(part.code).not.toBe(0)
    expect(readdirSync(shared).toSorted()).toEqual(before)
    expect(readFileSync(join(shared, 'one.txt'), 'utf8')).toBe('new\n')
    const nowhere = await put(join(shared, 'no/one.txt'))
    expect(nowhere.err).toBe(`berth: The folder ${shared}/no/ does not exist.\n`)
    const tree = archive((dir) => {
      mkdirSync(join(dir, 'a/b'), { recursive: true })
      writeFileSync(join(dir, 'a/b/c.txt'), 'deep\n')
    }, '.')
    const into = await copy(['-', 'folder', pathOf(join(shared, 'tree'), 'x')], { input: tree })
    expect(into.code, into.err).toBe(0)
    expect(readFileSync(join(shared, 'tree/a/b/c.txt'), 'utf8')).toBe('deep\n')
    const owner = execFileSync('stat', ['-c', '%U', join(shared, 'tree/a/b/c.txt')]).toString()
    expect(owner.trim()).toBe(`${fixture.settings.accountPrefix}1`)
  })

  test('links that the environment planted lead nowhere that its account cannot go', async () => {
    const { shared } = environmentPaths(fixture.settings, 1)
    const secret = mkdtempSync('/var/lib/berth-copy-root-')
    writeFileSync(join(secret, 'key'), 'of root\n', { mode: 0o600 })
    const account = `${fixture.settings.accountPrefix}1`
    try {
      symlinkSync(secret, join(shared, 'out'))
      symlinkSync(join(secret, 'key'), join(shared, 'key'))
      symlinkSync('/etc/shadow', join(shared, 'shadow'))
      execFileSync('chown', [
        '-h',
        account,
        ...['out', 'key', 'shadow'].map((n) => join(shared, n)),
      ])
      for (const name of ['key', 'out/key', 'shadow', 'out']) {
        const read = await copy(['-', 'from', pathOf(join(shared, name))])
        expect([name, read.code === 0, read.out.includes('of root')]).toEqual([name, false, false])
      }
      const bytes = archive((dir) => writeFileSync(join(dir, 'file'), 'planted\n'), 'file')
      const write = await copy(['-', 'file', pathOf(join(shared, 'out/key'), 'x')], {
        input: bytes,
      })
      expect(write.code).not.toBe(0)
      expect(readFileSync(join(secret, 'key'), 'utf8')).toBe('of root\n')
      expect(readdirSync(secret)).toEqual(['key'])
      // the link itself is replaced, not what it leads to
      const link = await copy(['-', 'file', pathOf(join(shared, 'key'), 'x')], { input: bytes })
      expect(link.code, link.err).toBe(0)
      expect(readFileSync(join(secret, 'key'), 'utf8')).toBe('of root\n')
      const climbing = archive(
        (dir) => {
          mkdirSync(join(dir, 'x'))
          writeFileSync(join(dir, 'up'), 'up\n')
        },
        '--transform',
        's,^up$,../../../../../../../etc/berth-planted,',
        '-P',
        'up',
      )
      await copy(['-', 'folder', pathOf(join(shared, 'climb'), 'x')], { input: climbing })
      expect(existsSync('/etc/berth-planted')).toBe(false)
    } finally {
      rmSync(secret, { recursive: true, force: true })
    }
  })

  test('copies that are none are refused, and the grant is checked', async () => {
    for (const words of [
      ['-', 'from'],
      ['-', 'away', pathOf('x')],
      ['-', 'file', pathOf('x', '../y')],
      ['-', 'file', pathOf('x')],
      ['-', 'from', pathOf('a\0b')],
      ['-', 'from', pathOf('x'.repeat(5_000))],
      ['-', 'from', 'x y'],
    ]) {
      expect([words, (await copy(words)).code]).toEqual([words, 77])
    }
    const grant = { can: ['shell', 'exec', 'forward', 'logs'] }
    const denied = await copy(['-', 'from', pathOf('hello.txt')], { grant })
    expect(denied).toMatchObject({ code: 77, out: '' })
    expect(denied.err).toBe('berth: This certificate does not allow copy.\n')
  })

  describe.skipIf(!dockerEngine())('and of containers', () => {
    const grant = { environment: 3 }
    beforeAll(async () => {
      const docker = fixture.host.repository('docker')
      docker.commit({ '.service.yml': DOCKER })
      await succeeded(fixture.host.deploy(docker, { environmentId: 3, recipe: Recipe.DOCKER }))
    })
    afterAll(async () => {
      const docker = fixture.host.repository('docker')
      const how = { environmentId: 3, recipe: Recipe.DOCKER, destroy: 'anyway' } as const
      await fixture.host.deploy(docker, how)
    })

    test('a port of a container is reached; a closed one says so', async () => {
      const { listen, refusals } = await forward(['web:8080', 'job:8080'], grant)
      expect(await get(await listen(0))).toBe('from-web\n')
      await expect(get(await listen(1))).rejects.toThrow()
      expect(refusals).toEqual(['job:8080 cannot be reached: nothing listens there.'])
      const unnamed = await (await forward(['-:8080'], grant)).ended
      expect(unnamed.err).toBe('berth: Name one of its services: web, job.\n')
      const other = await (await forward(['10.0.0.1:80'], grant)).ended
      expect(other).toMatchObject({ code: 77, err: 'berth: That is no name of a service.\n' })
    })

    test('files of a container come out and go in', async () => {
      const bytes = archive((dir) => writeFileSync(join(dir, 'file'), 'hi\n'), 'file')
      const put = await copy(['web', 'file', pathOf('/www/', 'new.html')], { grant, input: bytes })
      expect(put.code, put.err).toBe(0)
      const got = await copy(['web', 'from', pathOf('/www')], { grant })
      expect(got.code, got.err).toBe(0)
      const dir = unpacked(got.out)
      expect(readdirSync(dir).toSorted()).toEqual(['index.html', 'new.html'])
      expect(readFileSync(join(dir, 'new.html'), 'utf8')).toBe('hi\n')
      const { listen } = await forward(['web:8080'], grant)
      expect(await get(await listen(0), '/new.html')).toBe('hi\n')
    })
  })
})
