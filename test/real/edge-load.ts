// Strict clients for cut-overs: every answer must be complete and of a known version, nothing is repeated, every kind
// of failure is counted with its reason.
import { randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'
import { createConnection, type Socket } from 'node:net'

export interface Load {
  done: number
  /** Answers by the application that gave them. */
  by: Map<string, number>
  failures: string[]
  stop(): Promise<void>
}

interface At {
  port: number
  host: string
}

const BODY = randomBytes(32 * 1_024).toString('hex')

export interface LoadKind {
  connections: number
  keepAlive: boolean
  /** Every other request is a POST with a body that must come back. */
  posts: boolean
}

export function startLoad(at: At, { connections, keepAlive, posts }: LoadKind): Load {
  // an Agent with a bound keeps connections for whoever waits, whatever it is told
  const agent = keepAlive && new Agent({ keepAlive, maxSockets: connections })
  let isOver = false
  const load: Load = {
    done: 0,
    by: new Map(),
    failures: [],
    async stop() {
      isOver = true
      await Promise.all(clients)
      if (agent) agent.destroy()
    },
  }
  const client = async (number: number): Promise<void> => {
    for (let n = number; !isOver; n += 1) {
      try {
        const who = await once(at, agent, posts && n % 2 === 1 ? BODY : undefined)
        load.by.set(who, (load.by.get(who) ?? 0) + 1)
        load.done += 1
      } catch (error) {
        load.failures.push((error as Error).message)
        if (load.failures.length > 1_000) return
      }
    }
  }
  const clients = Array.from({ length: connections }, (_, i) => client(i))
  return load
}

function once({ port, host }: At, agent: Agent | false, body: string | undefined): Promise<string> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const headers = { host, ...(body ? { 'content-length': body.length } : {}) }
    const sent = request({ host: '127.0.0.1', port, agent, method, headers }, (answer) => {
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (chunk: string) => {
        text += chunk
      })
      answer.on('error', reject)
      answer.on('end', () => {
        const who = String(answer.headers['x-application'])
        if (answer.statusCode !== 200) reject(new Error(`status ${answer.statusCode}`))
        else if (text !== (body ?? who)) {
          reject(
            new Error(`${method} to ${who}: ${text.length} bytes, not ${(body ?? who).length}`),
          )
        } else resolve(who)
      })
    })
    sent.setTimeout(20_000, () => sent.destroy(new Error('no answer in 20 s')))
    sent.on('error', reject)
    sent.end(body)
  })
}

/** One request whose answer is read as it comes: for answers that outlast a switch. */
export function slowly({ port, host }: At, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, headers: { host }, agent: false })
    sent.on('error', reject)
    sent.on('response', (answer) => {
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (chunk: string) => {
        text += chunk
      })
      answer.on('error', reject)
      answer.on('end', () => resolve(text))
    })
    sent.end()
  })
}

/** After the handshake of a WebSocket: raw bytes both ways, which is all that a proxy sees of it. */
export function openUpgraded({ port, host }: At): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    let head = ''
    socket.once('error', reject)
    socket.on('connect', () =>
      socket.write(
        `GET /socket HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      ),
    )
    const read = (chunk: Buffer): void => {
      head += chunk.toString('latin1')
      if (!head.includes('\r\n\r\n')) return
      socket.off('data', read)
      if (head.startsWith('HTTP/1.1 101')) resolve(socket)
      else reject(new Error(head.split('\r\n')[0]))
    }
    socket.on('data', read)
  })
}

export function echo(socket: Socket, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('utf8')))
    socket.once('close', () => reject(new Error('the connection was closed')))
    socket.write(text)
  })
}
