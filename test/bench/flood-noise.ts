// The noise of `floods.ts`, in its own process: deliveries with wrong signatures at a steady pace, or pages that
// subscribe and do not read until the parent asks them to resume.
import { Agent, request } from 'node:http'
import { WebSocket } from 'ws'

interface Deliveries {
  url: string
  perSecond: number
  ms: number
}
interface Readers {
  url: string
  tokens: string[]
  count: number
  projectId: number
}

const TICK_MS = 20
const CONNECTIONS = 50

async function sendDeliveries({ url, perSecond, ms }: Deliveries): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const body = JSON.stringify({ ref: 'refs/heads/main', padding: 'x'.repeat(8_000) })
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'push',
    'x-hub-signature-256': `sha256=${'0'.repeat(64)}`,
  }
  let sent = 0
  let refused = 0
  let shed = 0
  let open = 0
  const post = (n: number): void => {
    open += 1
    const from = `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`
    const id = { 'x-github-delivery': String(n), 'x-forwarded-for': from }
    const asked = request(url, { method: 'POST', agent, headers: { ...headers, ...id } }, (r) => {
      if (r.statusCode === 401) refused += 1
      if (r.statusCode === 429) shed += 1
      r.resume().once('close', () => {
        open -= 1
      })
    })
    asked.once('error', () => {
      open -= 1
    })
    asked.end(body)
  }
  const began = performance.now()
  while (performance.now() - began < ms) {
    const due = Math.floor(((performance.now() - began) / 1_000) * perSecond)
    // requests that the other side does not take must not pile up here
    while (sent < due && open < CONNECTIONS * 4) {
      sent += 1
      post(sent)
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS))
  }
  const seconds = (performance.now() - began) / 1_000
  process.send?.({ sent, refused, shed, seconds })
}

interface Reader {
  socket: WebSocket
  last: string | undefined
  numbers: number[]
}

function subscribe(o: Readers, n: number, lastEventId?: string): Promise<Reader> {
  const token = o.tokens[n % o.tokens.length]
  const socket = new WebSocket(o.url, { headers: { authorization: `Bearer ${token}` } })
  const reader: Reader = { socket, last: undefined, numbers: [] }
  socket.on('error', () => {})
  socket.on('message', (data) => {
    const tracked = JSON.parse(String(data)).result?.data
    if (tracked?.id !== undefined) reader.last = tracked.id
    if (tracked?.data?.body?.n !== undefined) reader.numbers.push(tracked.data.body.n)
  })
  return new Promise((resolve) =>
    socket.once('open', () => {
      const input = { project_id: o.projectId }
      const params = { path: 'project.events', input, lastEventId }
      socket.send(JSON.stringify({ id: 1, method: 'subscription', params }))
      // the first message says that it began
      socket.once('message', () => resolve(reader))
    }),
  )
}

const AT_ONCE = 25
const COME_BACK = 20

async function keepReaders(o: Readers): Promise<void> {
  const readers: Reader[] = []
  for (let n = 0; n < o.count; n += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, o.count - n) }, (_, i) => i + n)
    readers.push(...(await Promise.all(some.map((i) => subscribe(o, i)))))
  }
  for (const { socket } of readers) socket.pause()
  process.send?.({ open: readers.length })
  await new Promise((resolve) => process.once('message', resolve))
  let missing = 0
  const back = readers.slice(0, COME_BACK)
  for (const [n, first] of back.entries()) {
    const closed = new Promise((resolve) => first.socket.once('close', resolve))
    first.socket.resume() // what the kernel buffered, then the end
    await closed
    const again = await subscribe(o, n, first.last)
    const newest = Math.max(...readers.flatMap((r) => r.numbers.at(-1) ?? 0))
    const deadline = performance.now() + 30_000
    while ((again.numbers.at(-1) ?? -1) < newest && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, TICK_MS))
    }
    const all = [...first.numbers, ...again.numbers]
    missing += all.filter((value, at) => at > 0 && value !== (all[at - 1] ?? 0) + 1).length
    again.socket.terminate()
  }
  process.send?.({ missing, resumed: back.length })
  for (const { socket } of readers) socket.terminate()
}

process.once('message', (order) => {
  const work =
    process.argv[2] === 'readers'
      ? keepReaders(order as Readers)
      : sendDeliveries(order as Deliveries)
  void work
})
