// Live readers behind the balancer that connect again and continue after the last number that they have: the dashboard's
// subscriptions, the public event stream, and followers of logs. What they receive goes into the history.
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { WebSocket } from 'ws'
import type { HistoryWriter } from './history.ts'

const AGAIN_MS = 200
const SILENCE_MS = 40_000 // longer than two heartbeats: the connection is dead

interface Source {
  url: string
  token: string
  history: HistoryWriter
}

abstract class Reader {
  protected readonly source: Source
  readonly name: string
  protected position: number | undefined
  protected isStopped = false
  #running: Promise<void> = Promise.resolve()

  constructor(source: Source, name: string) {
    this.source = source
    this.name = name
  }

  get at(): number {
    return this.position ?? 0
  }

  start(): this {
    this.#running = this.#run()
    return this
  }

  async stop(): Promise<void> {
    this.isStopped = true
    this.disconnect()
    await this.#running
  }

  /** Resolves when the connection has ended. */
  protected abstract connect(): Promise<void>
  protected abstract disconnect(): void

  protected get stream(): { stream?: string } {
    return {}
  }

  protected receive(seq: number, kind: string | undefined, task: number | null): void {
    const { history } = this.source
    if (kind === 'begun' || kind === 'reset') {
      history.add({ f: kind, type: 'info', reader: this.name, seq })
    } else if (kind !== undefined) {
      const about = task === null ? {} : { task }
      const reader = this.name
      history.add({ f: 'event', type: 'ok', reader, seq, kind, ...about, ...this.stream })
    }
    this.position = seq
  }

  async #run(): Promise<void> {
    while (!this.isStopped) {
      const after = this.position === undefined ? {} : { after: this.position }
      this.source.history.add({ f: 'resume', type: 'info', reader: this.name, ...after })
      await this.connect()
      if (!this.isStopped) await delay(AGAIN_MS)
    }
  }
}

interface Said {
  method?: string
  result?: {
    type: string
    data?: { id: string; data: { seq: number; kind: string; task_id?: number | null } }
  }
}

/** As the dashboard does: tRPC over a WebSocket. */
export class Subscriber extends Reader {
  readonly #organizationId: number
  #socket: WebSocket | undefined

  constructor(source: Source, name: string, organizationId: number) {
    super(source, name)
    this.#organizationId = organizationId
  }

  protected override connect(): Promise<void> {
    const { url, token } = this.source
    const headers = { authorization: `Bearer ${token}` }
    const socket = new WebSocket(`${url.replace('http', 'ws')}/trpc`, { headers })
    this.#socket = socket
    return new Promise((resolve) => {
      let silence: NodeJS.Timeout | undefined
      const heard = (): void => {
        clearTimeout(silence)
        silence = setTimeout(() => socket.terminate(), SILENCE_MS)
      }
      heard()
      socket.on('error', () => {}) // the close event reports it
      socket.on('ping', heard)
      socket.on('close', () => {
        clearTimeout(silence)
        resolve()
      })
      socket.on('open', () => {
        const input = {
          organization_id: this.#organizationId,
          ...(this.position === undefined ? {} : { lastEventId: String(this.position) }),
        }
        const params = { path: 'organization.events', input }
        socket.send(JSON.stringify({ id: 1, method: 'subscription', params }))
      })
      socket.on('message', (bytes) => {
        heard()
        if (String(bytes) === 'PING') return socket.send('PONG')
        const said = JSON.parse(String(bytes)) as Said & { error?: unknown }
        const event = said.result?.data?.data
        if (event) this.receive(event.seq, event.kind, event.task_id ?? null)
        else if (said.error || said.method === 'reconnect' || said.result?.type === 'stopped') {
          socket.terminate()
        }
      })
    })
  }

  protected override disconnect(): void {
    this.#socket?.terminate()
  }
}

/** The public events, as Server-Sent Events. */
export class EventSourceReader extends Reader {
  #request: ClientRequest | undefined

  protected override get stream() {
    return { stream: 'public' }
  }

  protected override connect(): Promise<void> {
    const { url, token } = this.source
    const headers: Record<string, string> = {
      accept: 'text/event-stream',
      authorization: `Bearer ${token}`,
      ...(this.position === undefined ? {} : { 'last-event-id': String(this.position) }),
    }
    return new Promise((resolve) => {
      const options = { headers, agent: false, timeout: SILENCE_MS }
      const asked = request(`${url}/api/events`, options, (answer) => this.#read(answer, resolve))
      this.#request = asked
      asked.once('timeout', () => asked.destroy(new Error('silence')))
      asked.once('error', () => resolve())
      asked.end()
    })
  }

  protected override disconnect(): void {
    this.#request?.destroy()
  }

  #read(answer: IncomingMessage, resolve: () => void): void {
    answer.once('error', () => resolve())
    answer.once('close', () => resolve())
    if (answer.statusCode !== 200) {
      if (answer.statusCode === 410) {
        this.source.history.add({ f: 'reset', type: 'info', reader: this.name, seq: this.at })
      }
      answer.resume()
      return
    }
    let rest = ''
    answer.setEncoding('utf8').on('data', (piece: string) => {
      const messages = (rest + piece).split('\n\n')
      rest = messages.pop() ?? ''
      for (const message of messages) this.#take(message)
    })
  }

  #take(message: string): void {
    const id = /^id: (\d+)$/m.exec(message)?.[1]
    if (id === undefined) return // a heartbeat
    const data = /^data: (.*)$/m.exec(message)?.[1]
    if (data === undefined) {
      const kind = this.position === undefined ? 'begun' : undefined
      this.receive(Number(id), kind, null)
      return
    }
    const event = JSON.parse(data) as { type: string; task_id: number | null }
    this.receive(Number(id), event.type, event.task_id)
  }
}

/** At the end: all public events, which the readers of them must have. */
export async function recordPublicEvents({ url, token, history }: Source): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  for (let after = 0; ; ) {
    const answer = await fetch(`${url}/api/events?after=${after}&limit=500`, { headers })
    if (answer.status === 429) {
      await delay(1_000 * Number(answer.headers.get('retry-after') ?? 1))
      continue
    }
    if (!answer.ok) throw new Error(`the events after ${after}: ${await answer.text()}`)
    const page = (await answer.json()) as { id: number; type: string; task_id: number | null }[]
    for (const { id: seq, type: kind, task_id: task } of page) {
      const about = task === null ? {} : { task }
      history.add({ f: 'stored', type: 'ok', stream: 'public', seq, kind, ...about })
    }
    const next = Number(answer.headers.get('berth-last-event-id'))
    if (!(next > after)) return
    after = next
  }
}

/** What a follower of a log has: complete records, and where it continues. */
interface Followed {
  text: string
  line: number
  /** Records with this number; long lines come in pieces. */
  records: number
}

/** Follows the log of a task to its end, over as many connections as it takes; undefined if that takes too long. */
export async function followLog(
  { url, token }: Omit<Source, 'history'>,
  taskId: number,
  until: () => boolean,
): Promise<string | undefined> {
  const followed: Followed = { text: '', line: 1, records: 0 }
  while (!until()) {
    const isWhole = await followOnce(`${url}/api/tasks/${taskId}`, token, followed)
    if (isWhole) return followed.text
    await delay(AGAIN_MS)
  }
  return undefined
}

async function followOnce(url: string, token: string, followed: Followed): Promise<boolean> {
  const authorization = `Bearer ${token}`
  const signal = AbortSignal.timeout(SILENCE_MS)
  try {
    const from = `from_line=${followed.line}&follow=true`
    const headers = { authorization, accept: 'application/x-ndjson' }
    const answer = await fetch(`${url}/log?${from}`, { headers, signal })
    if (!answer.ok || !answer.body) return false
    let known = followed.records
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of answer.body) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const { n, text } = JSON.parse(line) as { n: number; text: string }
        if (n < followed.line) continue
        if (n === followed.line && known-- > 0) continue // received before the connection broke
        followed.records = n === followed.line ? followed.records + 1 : 1
        followed.line = n
        followed.text += text
      }
    }
    const task = (await (await fetch(url, { headers: { authorization }, signal })).json()) as {
      finished_at: string | null
      log_complete?: boolean
      log_lines?: number
    }
    if (task.finished_at === null || task.finished_at === undefined) return false
    return task.log_complete === true && (task.log_lines ?? 0) <= followed.line
  } catch {
    return false // cut off: it continues after what it has
  }
}
