// The session of a build, with requests as BuildKit sends them: a server on a socket becomes the client.
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createDeployKey } from '../../../../../control-plane/src/keys/deploy-key.ts'
import { eventually } from '../../../../../test/fixtures/server/deployment.ts'
import { openEngine } from '../engine.ts'
import { listContext, type Wanted } from './context.ts'
import { openTimes } from './context-times.ts'
import type { BuildGrants } from './grants.ts'
import { frameMessage } from './grpc-messages.ts'
import { type BuildSession, openBuildSession, serveSession } from './session.ts'
import { readSigningKey } from './ssh-agent.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-build-session-'))
const dockerSocket = join(folder, 'engine.sock')
let engine: Server
const root = join(folder, 'context')
let client: ClientHttp2Session | undefined
let wanted: Wanted | undefined
const folders = {
  context: (asked: Wanted) => {
    wanted = asked
    return listContext(root, asked, openTimes(undefined))
  },
}

beforeEach(async () => {
  mkdirSync(root)
  engine = createServer((_, answer) => answer.writeHead(500).end())
  await new Promise<void>((resolve) => engine.listen(dockerSocket, resolve))
})
afterEach(async () => {
  client?.destroy()
  await new Promise((resolve) => engine.close(resolve))
  rmSync(dockerSocket, { force: true })
  rmSync(root, { recursive: true })
})

/** Sends a request whose first field is `question`. */
function ask(path: string, question = ''): Promise<{ status: string; message: string }> {
  const stream = client?.request({ ':method': 'POST', ':path': path, te: 'trailers' })
  if (!stream) throw new Error('nobody opened a session')
  return new Promise((resolve, reject) => {
    let status = ''
    const parts: Buffer[] = []
    stream.on('response', (head) => {
      status = String(head['grpc-status'] ?? '')
    })
    stream.on('trailers', (trailers) => {
      status = String(trailers['grpc-status'])
    })
    stream.on('data', (part: Buffer) => parts.push(part))
    stream.on('error', reject)
    stream.on('end', () => resolve({ status, message: Buffer.concat(parts).toString('hex') }))
    stream.end(question ? frameMessage(field(question)) : Buffer.alloc(5))
  })
}

const field = (value: string | Uint8Array): Uint8Array =>
  new BinaryWriter()
    .tag(1, WireType.LengthDelimited)
    .bytes(Buffer.from(value as string))
    .finish()

/** Opens a session in which the engine is the client. */
async function open(
  grants?: BuildGrants,
): Promise<{ session: BuildSession; headers: NodeJS.Dict<string | string[]> }> {
  let headers: NodeJS.Dict<string | string[]> = {}
  engine.on('upgrade', (request, socket: Duplex) => {
    headers = request.headersDistinct
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n')
    const maxSendHeaderBlockLength = 1_000_000
    client = connect('http://localhost', {
      createConnection: () => socket,
      maxSendHeaderBlockLength,
    })
  })
  return {
    session: await openBuildSession(openEngine({ dockerSocket }), {
      folders,
      key: 'the key',
      grants,
    }),
    headers,
  }
}

test('lives, has no credentials and knows nothing else', async () => {
  const { session, headers } = await open()
  expect(headers).toMatchObject({
    'x-docker-expose-session-uuid': [session.id],
    'x-docker-expose-session-sharedkey': ['the key'],
  })
  expect(headers['x-docker-expose-session-grpc-method']).toContain(
    '/moby.filesync.v1.FileSync/DiffCopy',
  )
  expect(await ask('/grpc.health.v1.Health/Check')).toEqual({
    status: '0',
    message: '00000000020801',
  })
  const credentials = await ask('/moby.filesync.v1.Auth/Credentials')
  expect(credentials).toEqual({ status: '0', message: '0000000000' })
  for (const path of ['buildkit.secrets.v1.Secrets/GetSecret', 'sshforward.v1.SSH/CheckAgent']) {
    expect(await ask(`/moby.${path}`, 'default')).toEqual({ status: '5', message: '' })
  }
  expect(await ask('/moby.filesync.v1.Auth/FetchToken')).toEqual({ status: '12', message: '' })
  expect(await ask('/moby.filesync.v1.FileSync/DiffCopy')).toMatchObject({ status: '5' })
  expect(session.failure).toBeUndefined()
})

test('gives the values that were granted, under their names alone', async () => {
  const { privateKey } = createDeployKey('shop')
  await open({
    secrets: new Map([['NPM_TOKEN', 'a value']]),
    sshKey: readSigningKey(Buffer.from(privateKey)),
    registries: new Map([
      ['docker.io', { username: 'me', password: 'hub' }],
      ['localhost:5000', { username: 'you', password: 'pw' }],
    ]),
  })
  const text = async (path: string, question: string): Promise<string> => {
    const { status, message } = await ask(path, question)
    return `${status} ${Buffer.from(message, 'hex').subarray(5).toString('latin1')}`
  }
  const SECRET = '/moby.buildkit.secrets.v1.Secrets/GetSecret'
  expect(await text(SECRET, 'NPM_TOKEN')).toBe('0 \n\x07a value')
  expect(await text(SECRET, 'npm_token')).toBe('5 ')
  const CREDENTIALS = '/moby.filesync.v1.Auth/Credentials'
  expect(await text(CREDENTIALS, 'localhost:5000')).toBe('0 \n\x03you\x12\x02pw')
  for (const hub of ['registry-1.docker.io', 'https://index.docker.io/v1/', 'docker.io']) {
    expect(await text(CREDENTIALS, hub)).toBe('0 \n\x02me\x12\x03hub')
  }
  expect(await text(CREDENTIALS, 'localhost')).toBe('0 ')
  expect(await text('/moby.sshforward.v1.SSH/CheckAgent', 'default')).toBe('0 ')
  expect(await text('/moby.sshforward.v1.SSH/CheckAgent', 'other')).toBe('5 ')
})

test('forwards the protocol of an SSH agent', async () => {
  const { privateKey } = createDeployKey('shop')
  const sshKey = readSigningKey(Buffer.from(privateKey))
  await open({ secrets: new Map(), registries: new Map(), sshKey })
  const forward = (id: string) =>
    client?.request({
      ':method': 'POST',
      ':path': '/moby.sshforward.v1.SSH/ForwardAgent',
      'buildkit.ssh.id': id,
    }) as ClientHttp2Stream
  const stream = forward('default')
  const list = Buffer.from([0, 0, 0, 1, 11])
  stream.write(frameMessage(field(list.subarray(0, 2)))) // cut anywhere
  stream.write(frameMessage(field(list.subarray(2))))
  const [answer] = (await once(stream, 'data')) as [Buffer]
  expect(answer.includes(sshKey.blob)).toBe(true)
  stream.end(frameMessage(field(Buffer.alloc(4, 0xff))))
  await once(stream, 'close')
  const refused = forward('another')
  const [head] = await once(refused, 'response')
  expect(head['grpc-status']).toBe('5')
})

const frame = (type: number, flags: number, stream: number, body: Buffer): Buffer => {
  const head = Buffer.alloc(9)
  head.writeUIntBE(body.length, 0, 3)
  head.set([type, flags], 3)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, body])
}

test.each(['/grpc.health.v1.Health/Check', '/moby.filesync.v1.FileSync/DiffCopy'])(
  'a question %s that is taken back with the same breath is none',
  async (path) => {
    const [ours, theirs] = duplexPair()
    const session = serveSession(ours, 'one', folders)
    const fields = {
      ':method': 'POST',
      ':scheme': 'http',
      ':authority': 'localhost',
      ':path': path,
      'dir-name': 'context',
    }
    // each literally: no index, no compression
    const block = Object.entries(fields).flatMap(([name, value]) => [
      Buffer.from([0, name.length]),
      Buffer.from(name),
      Buffer.from([value.length]),
      Buffer.from(value),
    ])
    const CANCEL = Buffer.from([0, 0, 0, 8])
    const PING = 6
    theirs.write(
      Buffer.concat([
        Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
        frame(4, 0, 0, Buffer.alloc(0)),
        frame(1, 4, 1, Buffer.concat(block)),
        frame(3, 0, 1, CANCEL),
        frame(PING, 0, 0, Buffer.alloc(8)),
      ]),
    )
    let came = Buffer.alloc(0)
    const answer = frame(PING, 1, 0, Buffer.alloc(8))
    for await (const part of theirs) {
      came = Buffer.concat([came, part])
      if (came.includes(answer)) break
    }
    ours.destroy()
    expect(session.failure).toBeUndefined()
  },
)

test('an engine that gives none is named', async () => {
  const opened = openBuildSession(openEngine({ dockerSocket }), { folders, key: '' })
  await expect(opened).rejects.toMatchObject({ kind: 'refused', status: 500 })
})

describe('files', () => {
  const STAT = 0
  const REQUEST = 1
  const DATA = 2
  const END = 3
  const ERROR = 4
  interface Reported {
    type: number
    id: number
    path: string | undefined
    data: Buffer
  }

  function decode(bytes: Uint8Array): Reported {
    const reported: Reported = { type: STAT, id: 0, path: undefined, data: Buffer.alloc(0) }
    const reader = new BinaryReader(bytes)
    while (reader.pos < reader.len) {
      const [field] = reader.tag()
      if (field === 1) reported.type = reader.int32()
      else if (field === 3) reported.id = reader.uint32()
      else if (field === 4) reported.data = Buffer.from(reader.bytes())
      else {
        const stat = new BinaryReader(reader.bytes())
        stat.tag()
        reported.path = stat.string()
      }
    }
    return reported
  }

  /** Acts as the engine: reads packets, sends its own. */
  function talk(headers: Record<string, string | string[]> = {}) {
    const stream = client?.request({
      ':method': 'POST',
      ':path': '/moby.filesync.v1.FileSync/DiffCopy',
      'dir-name': 'context',
      te: 'trailers',
      ...headers,
    }) as ClientHttp2Stream
    const reported: Reported[] = []
    const state = { status: '', isOver: false }
    let rest = Buffer.alloc(0)
    stream.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
        const end = 5 + rest.readUInt32BE(1)
        reported.push(decode(rest.subarray(5, end)))
        rest = rest.subarray(end)
      }
    })
    stream.on('trailers', (trailers) => {
      state.status = String(trailers['grpc-status'])
    })
    stream.on('end', () => stream.end())
    stream.on('error', () => {})
    stream.on('close', () => {
      state.isOver = true
    })
    const say = (type: number, id = 0): void => {
      const writer = new BinaryWriter().tag(1, WireType.Varint).uint32(type)
      const message = writer.tag(3, WireType.Varint).uint32(id).finish()
      const prefix = Buffer.alloc(5)
      prefix.writeUInt32BE(message.length, 1)
      stream.write(Buffer.concat([prefix, message]))
    }
    const listed = () =>
      eventually(() => reported.some((t) => t.type === STAT && t.path === undefined), 'the list')
    const over = () => eventually(() => state.isOver, 'the end')
    const paths = () => reported.flatMap(({ path }) => (path === undefined ? [] : [path]))
    return { stream, reported, state, say, listed, over, paths }
  }

  test('are told in order and sent when they are asked for, in pieces', async () => {
    const large = Buffer.alloc(1_000_000, 'large')
    mkdirSync(join(root, 'b'))
    writeFileSync(join(root, 'b', 'large'), large)
    writeFileSync(join(root, 'a'), 'text')
    writeFileSync(join(root, 'none'), '')
    symlinkSync('a', join(root, 'link'))
    await open()
    const { reported, say, listed, over, paths, state } = talk()
    await listed()
    expect(paths()).toEqual(['a', 'b', 'b/large', 'link', 'none'])
    for (const id of [4, 2, 0]) say(REQUEST, id)
    const isComplete = (id: number) =>
      reported.some((t) => t.type === DATA && t.id === id && t.data.length === 0)
    await eventually(() => [0, 2, 4].every(isComplete), 'the files')
    const pieces = (id: number) => reported.filter((t) => t.type === DATA && t.id === id)
    const whole = (id: number) => Buffer.concat(pieces(id).map(({ data }) => data))
    expect(whole(0).toString()).toBe('text')
    expect(whole(2).equals(large)).toBe(true)
    expect(pieces(2).length).toBeGreaterThan(10)
    expect(pieces(4).length).toBe(1)
    say(END)
    await over()
    expect(reported.at(-1)?.type).toBe(END)
    expect(state.status).toBe('0')
  })

  test('are those that are asked for; words that are not ASCII come as bytes or encoded', async () => {
    const { session } = await open()
    expect(session.isAsked).toBe(false)
    const first = talk({
      'exclude-patterns': ['a, b', Buffer.from('grüße').toString('latin1')],
      followpaths: ['x', 'y'],
    })
    await first.listed()
    expect(session.isAsked).toBe(true)
    expect(wanted).toEqual({ excludes: ['a, b', 'grüße'], includes: [], follow: ['x', 'y'] })
    const second = talk({
      'include-patterns': ['a+b%2B', encodeURIComponent('grüße')],
      'include-patterns-encoded': '1',
    })
    await second.listed()
    expect(wanted).toEqual({ excludes: [], includes: ['a b+', 'grüße'], follow: [] })
    const third = talk({ 'exclude-patterns': Array.from({ length: 2_000 }, (_, i) => `file-${i}`) })
    await third.listed()
    expect(wanted?.excludes.length).toBe(2_000)
  })

  const failed = async (words: RegExp, act: (say: (type: number, id?: number) => void) => void) => {
    const { session } = await open()
    const { reported, say, listed, over, state } = talk()
    await listed()
    act(say)
    await over()
    expect(reported.at(-1)).toMatchObject({ type: ERROR })
    expect(reported.at(-1)?.data.toString()).toMatch(words)
    expect(state.status).toBe('2')
    expect(session.failure?.message).toMatch(words)
  }

  test.each([
    ['a folder', 1],
    ['nothing', 7],
  ])('that were not offered are refused: %s', async (_what, id) => {
    writeFileSync(join(root, 'a'), 'text')
    mkdirSync(join(root, 'b'))
    await failed(new RegExp(`asks for file ${id}, which was not offered`), (say) => {
      say(REQUEST, id)
    })
  })

  test('are given once', async () => {
    writeFileSync(join(root, 'a'), 'text')
    await failed(/asks for file 0, which was not offered/, (say) => {
      say(REQUEST, 0)
      say(REQUEST, 0)
    })
  })

  test.each<[string, RegExp, () => void]>([
    ['vanished', /ENOENT.*context\/a/, () => rmSync(join(root, 'a'))],
    [
      'was replaced by a link',
      /ELOOP/,
      () => {
        rmSync(join(root, 'a'))
        symlinkSync('/etc/passwd', join(root, 'a'))
      },
    ],
    ['was written to', /a changed while it was sent/, () => writeFileSync(join(root, 'a'), 'TEXT')],
  ])('of which one %s end with the reason', async (_what, words, change) => {
    writeFileSync(join(root, 'a'), 'text')
    await failed(words, (say) => {
      change()
      say(REQUEST, 0)
    })
  })

  test('of a folder that is gone end with the reason', async () => {
    const { session } = await open()
    rmSync(root, { recursive: true })
    const { reported, over, state } = talk()
    await over()
    mkdirSync(root)
    expect(reported.map(({ type }) => type)).toEqual([ERROR])
    expect(state.status).toBe('2')
    expect(session.failure?.message).toMatch(/ENOENT/)
  })

  test('that nobody wants any more are no failure', async () => {
    writeFileSync(join(root, 'a'), Buffer.alloc(50_000_000))
    const { session } = await open()
    const { reported, stream, say, listed, over } = talk()
    await listed()
    say(REQUEST, 0)
    await eventually(() => reported.some(({ type }) => type === DATA), 'the first piece')
    stream.close(8) // CANCEL
    await over()
    const second = talk()
    await second.listed()
    second.say(ERROR)
    await second.over()
    expect(session.failure).toBeUndefined()
    expect(await ask('/grpc.health.v1.Health/Check')).toMatchObject({ status: '0' })
  })
})
