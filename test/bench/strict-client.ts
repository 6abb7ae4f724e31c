// The strict client, in its own process so that the harness does not slow it: every request must be answered completely
// and correctly, and is never retried. load-client.ts starts it with its options as JSON; it works until it is asked to
// stop, finishes the requests in flight, and reports.
import { randomBytes } from 'node:crypto'
import http from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { ClientReport, ClientWishes, Kind } from './load-client.ts'

const LIMIT_MS = 30_000
/** The length of one session; by the clock, because a drain ends by the clock as well. */
const TALK_MS = [2_000, 10_000]
const KEPT_FAILURES = 1_000
/** Unless a size is wished. Small, because Caddy 2.6 itself cuts about one in 20,000 larger ones on a busy machine. */
const POST_BYTES = 3 * 1_024

const wishes = JSON.parse(process.argv[2] ?? '{}') as ClientWishes
const report: ClientReport = { kinds: {}, failures: [], versions: {} }
let stopping = false

const countsOf = (kind: Kind) => {
  report.kinds[kind] ??= { ok: 0, failed: 0, maxMs: 0 }
  return report.kinds[kind]
}

function note(kind: Kind, version: string, began: number): void {
  const counts = countsOf(kind)
  counts.ok += 1
  counts.maxMs = Math.max(counts.maxMs, Math.round(performance.now() - began))
  const now = Date.now()
  report.versions[version] ??= { count: 0, firstAt: now, lastAt: now }
  report.versions[version].count += 1
  report.versions[version].lastAt = now
}

function fail(kind: Kind, what: string, began: number): void {
  countsOf(kind).failed += 1
  const why = `${what}, after ${Math.round(performance.now() - began)} ms`
  if (report.failures.length < KEPT_FAILURES) report.failures.push({ kind, why, at: Date.now() })
}

interface Answer {
  status: number
  version: string
  body: Buffer
}

function ask(
  agent: http.Agent | false,
  method: string,
  path: string,
  body?: Buffer,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { host: wishes.host, ...(body ? { 'content-length': body.length } : {}) }
    const options = { host: wishes.address, port: wishes.port, method, path, agent, headers }
    const request = http.request(options, (answer) => {
      const pieces: Buffer[] = []
      answer.on('data', (piece: Buffer) => pieces.push(piece))
      answer.on('error', reject)
      answer.on('close', () => {
        if (!answer.complete) return reject(new Error('the answer was cut'))
        const version = String(answer.headers['x-version'] ?? '')
        resolve({ status: answer.statusCode ?? 0, version, body: Buffer.concat(pieces) })
      })
    })
    request.setTimeout(LIMIT_MS, () => request.destroy(new Error('no answer in time')))
    request.on('error', reject)
    request.end(body)
  })
}

/** What is wrong with an answer; empty if nothing. */
const problem = (answer: Answer, isComplete: (body: Buffer) => boolean): string => {
  if (answer.status !== 200) {
    const text = answer.body.toString().replaceAll(/<style.*?<\/style>|<[^>]*>|\s+/gs, ' ')
    return `status ${answer.status} ${text.trim().slice(0, 120)}`
  }
  if (answer.version === '') return 'an answer without a version'
  return isComplete(answer.body) ? '' : 'not the expected body'
}

const ways: Record<Kind, (agent: http.Agent) => Promise<void>> = {
  'keep-alive': (agent) => once('keep-alive', agent, 'GET', '/', isWhole),
  fresh: () => once('fresh', false, 'GET', '/', isWhole),
  slow: (agent) => once('slow', agent, 'GET', '/slow', hasEnd),
  long: (agent) => once('long', agent, 'GET', '/long', hasEnd),
  post: (agent) => {
    const sent = randomBytes(wishes.postBytes ?? 1 + Math.floor(Math.random() * POST_BYTES))
    return once('post', agent, 'POST', '/echo', (body) => body.equals(sent), sent)
  },
  websocket: () => talk(),
}

function isWhole(body: Buffer): boolean {
  return body.toString().startsWith('version ')
}

function hasEnd(body: Buffer): boolean {
  return body.toString().endsWith('end\n')
}

async function once(
  kind: Kind,
  agent: http.Agent | false,
  method: string,
  path: string,
  isComplete: (body: Buffer) => boolean,
  body?: Buffer,
): Promise<void> {
  const began = performance.now()
  try {
    const answer = await ask(agent, method, path, body)
    const why = problem(answer, isComplete)
    if (why) fail(kind, why, began)
    else note(kind, answer.version, began)
  } catch (error) {
    fail(kind, (error as NodeJS.ErrnoException).code ?? (error as Error).message, began)
  }
}

/** One WebSocket session: each message must be echoed before the next is sent, and the close must be answered. */
async function talk(): Promise<void> {
  const began = performance.now()
  try {
    const { socket, version, rest } = await upgrade()
    try {
      const read = frameReader(socket, rest)
      const end = began + (TALK_MS[Math.random() < 0.5 ? 0 : 1] ?? 0)
      for (let n = 0; performance.now() < end; n++) {
        const text = Buffer.from(`${n} ${randomBytes(20).toString('hex')}`)
        socket.write(maskedFrame(1, text))
        const frame = await read()
        if (frame.opcode !== 1 || !frame.data.equals(text)) {
          throw new Error(`session ended after ${n} messages (opcode ${frame.opcode})`)
        }
        await delay(50 + Math.random() * 100)
      }
      socket.write(maskedFrame(8, Buffer.from([3, 232])))
      if ((await read()).opcode !== 8) throw new Error('the farewell was not answered')
      note('websocket', version, began)
    } finally {
      socket.destroy()
    }
  } catch (error) {
    fail('websocket', (error as Error).message, began)
  }
}

function upgrade(): Promise<{ socket: Socket; version: string; rest: Buffer }> {
  return new Promise((resolve, reject) => {
    const request = http.request({
      host: wishes.address,
      port: wishes.port,
      path: '/ws',
      agent: false,
      headers: {
        host: wishes.host,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': randomBytes(16).toString('base64'),
      },
    })
    request.setTimeout(LIMIT_MS, () => request.destroy(new Error('no upgrade in time')))
    request.on('error', reject)
    request.on('response', (answer) => {
      answer.resume()
      reject(new Error(`status ${answer.statusCode} instead of an upgrade`))
    })
    request.on('upgrade', (answer, socket, rest) => {
      socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error('the session fell silent')))
      resolve({ socket: socket as Socket, version: String(answer.headers['x-version']), rest })
    })
    request.end()
  })
}

interface Frame {
  opcode: number
  data: Buffer
}

/** Frames in order; rejects if the connection ends first. */
function frameReader(socket: Socket, rest: Buffer): () => Promise<Frame> {
  let held = rest
  let ended: Error | undefined
  let notify = (): void => undefined
  socket.on('data', (piece) => {
    held = Buffer.concat([held, piece])
    notify()
  })
  const end = (error?: Error): void => {
    ended ??= error ?? new Error('the session was cut')
    notify()
  }
  socket.on('error', end)
  socket.on('close', () => end())
  return async () => {
    for (;;) {
      const length = (held[1] ?? 0) & 127
      if (held.length >= 2 && held.length >= 2 + length) {
        const frame = { opcode: (held[0] ?? 0) & 15, data: held.subarray(2, 2 + length) }
        held = held.subarray(2 + length)
        return frame
      }
      if (ended) throw ended
      await new Promise<void>((resolve) => {
        notify = resolve
      })
    }
  }
}

function maskedFrame(opcode: number, data: Buffer): Buffer {
  const mask = randomBytes(4)
  const hidden = Buffer.from(data.map((byte, i) => byte ^ (mask[i % 4] ?? 0)))
  return Buffer.concat([Buffer.from([128 | opcode, 128 | data.length]), mask, hidden])
}

async function work(kind: Kind): Promise<void> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  while (!stopping) {
    await ways[kind](agent)
    if (wishes.pauseMs) await delay(wishes.pauseMs * (0.5 + Math.random()))
  }
  agent.destroy()
}

process.on('message', (message) => {
  if (message === 'stop') stopping = true
  else if (message === 'report') process.send?.(report)
})
process.on('disconnect', () => process.exit(1)) // the harness has ended
const workers = Object.entries(wishes.workers) as [Kind, number][]
await Promise.all(workers.flatMap(([kind, n]) => Array.from({ length: n }, () => work(kind))))
process.send?.(report, () => process.exit(0))
