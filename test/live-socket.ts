// The dashboard's socket without the dashboard's client: what was said, word by word, so that two refusals can be
// compared. Nothing reconnects and nothing is interpreted.
import { WebSocket } from 'ws'
import type { TestControlPlane } from './control-plane.ts'
import { until } from './lab.ts'

interface Said {
  id: number | null
  error?: { message: string; data: { code: string } }
  result?: { type: string; id?: string; data?: Record<string, unknown> }
}

export class LiveSocket {
  readonly #socket: WebSocket
  readonly #said: Said[] = []
  #calls = 0
  /** The code the other side closed with. */
  ended: number | undefined

  constructor(cp: TestControlPlane, token: string, more: Record<string, string> = {}) {
    const headers = { ...(token ? { authorization: `Bearer ${token}` } : {}), ...more }
    this.#socket = new WebSocket(`${cp.url.replace('http', 'ws')}/trpc`, { headers })
    this.#socket.on('error', () => {}) // its end tells
    this.#socket.on('message', (data) => this.#said.push(JSON.parse(String(data)) as Said))
    this.#socket.on('close', (code) => {
      this.ended = code
    })
  }

  get said(): string {
    return JSON.stringify(this.#said)
  }

  /** Asks and gives the number of the subscription. */
  async ask(path: string, input: object): Promise<number> {
    await until('the socket', () => this.#socket.readyState > WebSocket.CONNECTING || undefined)
    this.#calls += 1
    const id = this.#calls
    this.#socket.send(JSON.stringify({ id, method: 'subscription', params: { path, input } }))
    return id
  }

  /** The first word about a subscription: it started, or why not; or the end of the socket. */
  async answer(id: number): Promise<{ code: string; text: string }> {
    return until('an answer', () => {
      const first = this.#said.find((m) => m.id === id || (m.id === null && m.error))
      if (first) {
        const text = JSON.stringify(first).replace(/"id":\d+/, '"id":N')
        return { code: first.error?.data.code ?? first.result?.type ?? '', text }
      }
      return this.ended === undefined ? undefined : { code: `closed ${this.ended}`, text: '' }
    })
  }

  /** What a subscription brought so far. */
  heard(id: number): Record<string, unknown>[] {
    return this.#said.flatMap((m) => (m.id === id && m.result?.data ? [m.result.data] : []))
  }

  close(): void {
    this.#socket.terminate()
  }
}
