// The connection that a control plane keeps to PostgreSQL beside its pool. It holds the lock that says who uses the
// database (several share it; a restore, which needs the database alone, takes it exclusively), and it
// carries hints between control planes by LISTEN and NOTIFY. A broken one is made again, unless the lock is taken by
// one that is alone. A hint may be lost: nothing depends on one.
import pg from 'pg'
import { DATABASE, REPLICAS } from '../../limits/installation.ts'
import type { Hold } from './file-lock.ts'

/** Arbitrary, the same in every release: up to 1.15 one process held it exclusively. */
export const USE = 7_443_021
const CHANNEL = 'berth_hints'
const PAYLOAD_BYTES = 7_900 // PostgreSQL takes less than 8,000

interface LinkOptions {
  url: string
  /** Names the sender, which ignores its own hints. */
  sender: string
  onHint(topic: string): void
  /** Hints may have been missed: the connection was made again. */
  onMissed(): void
  /** A process that is alone took the database meanwhile, so this one must end. */
  onLost(): void
  onBroken(error: Error): void
}

/** Returns undefined if the lock cannot be had now. */
export async function openPostgresLink(options: LinkOptions): Promise<PostgresLink | undefined> {
  const link = new PostgresLink(options)
  return (await link.connect()) ? link : undefined
}

export class PostgresLink implements Hold {
  readonly #o: LinkOptions
  #client: pg.Client | undefined
  #again: NodeJS.Timeout | undefined
  #pulse: NodeJS.Timeout | undefined
  #flush: NodeJS.Timeout | undefined
  readonly #waiting = new Set<string>()
  #isReleased = false

  constructor(options: LinkOptions) {
    this.#o = options
  }

  async connect(): Promise<boolean> {
    const { url } = this.#o
    const client = new pg.Client({
      connectionString: url,
      keepAlive: true,
      connectionTimeoutMillis: DATABASE.connectMs,
      query_timeout: REPLICAS.silentMs, // a machine that is gone without a word must not hold us for ever
    })
    client.on('error', () => {}) // the `end` event below handles it
    try {
      await client.connect()
      // the server notices within half a minute that this machine is unreachable
      await client.query('set tcp_keepalives_idle = 10')
      await client.query('set tcp_keepalives_interval = 5')
      await client.query('set tcp_keepalives_count = 3')
      await client.query('set idle_session_timeout = 0').catch(() => undefined) // unknown before PostgreSQL 14
      const { rows } = await client.query('select pg_try_advisory_lock_shared($1) as taken', [USE])
      if (rows[0]?.taken !== true || this.#isReleased) {
        await close(client)
        return this.#isReleased
      }
      client.on('notification', ({ payload }) => this.#hear(payload ?? ''))
      await client.query(`listen ${CHANNEL}`)
    } catch (error) {
      await close(client)
      throw error
    }
    this.#client = client
    client.once('end', () => this.#broken(client, new Error('the connection ended')))
    this.#pulse = setInterval(() => {
      client.query('select 1').catch((error: Error) => this.#broken(client, error))
    }, REPLICAS.pulseMs)
    return true
  }

  /** Tells the other control planes, soon. Hints of the same topic are one; a broken connection drops them. */
  send(topic: string): void {
    if (this.#client === undefined || this.#waiting.size >= REPLICAS.hints) return
    this.#waiting.add(topic)
    this.#flush ??= setTimeout(() => this.#tell(), REPLICAS.hintMs)
  }

  async release(): Promise<void> {
    this.#isReleased = true
    clearTimeout(this.#again)
    clearTimeout(this.#flush)
    clearInterval(this.#pulse)
    const client = this.#client
    this.#client = undefined
    if (client) await close(client)
  }

  #tell(): void {
    this.#flush = undefined
    const topics = [...this.#waiting]
    this.#waiting.clear()
    const client = this.#client
    if (!client || topics.length === 0) return
    for (const payload of pack(this.#o.sender, topics)) {
      client
        .query('select pg_notify($1, $2)', [CHANNEL, payload])
        .catch((error: Error) => this.#broken(client, error))
    }
  }

  #hear(payload: string): void {
    const [sender, ...topics] = payload.split('\n')
    if (sender === this.#o.sender) return
    for (const topic of topics) this.#o.onHint(topic)
  }

  #broken(client: pg.Client, error: Error): void {
    if (this.#isReleased || this.#client !== client) return
    this.#client = undefined
    clearInterval(this.#pulse)
    this.#o.onBroken(error)
    void close(client)
    this.#later()
  }

  #later(): void {
    this.#again = setTimeout(() => {
      this.#reconnect().catch((error: Error) => {
        if (this.#isReleased) return
        this.#o.onBroken(error)
        this.#later()
      })
    }, REPLICAS.reconnectMs)
  }

  async #reconnect(): Promise<void> {
    if (await this.connect()) {
      if (!this.#isReleased) this.#o.onMissed()
    } else if (!this.#isReleased) {
      this.#o.onLost()
    }
  }
}

/** Ends it without waiting for an answer that may never come. */
async function close(client: pg.Client): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      ;(
        client as unknown as { connection: { stream: { destroy(): void } } }
      ).connection.stream.destroy()
      resolve()
    }, REPLICAS.closeMs)
  })
  await Promise.race([client.end().catch(() => undefined), late])
  clearTimeout(timer)
}

/** Topics are short and hold no line ends. */
function pack(sender: string, topics: readonly string[]): string[] {
  const payloads: string[] = []
  let payload = sender
  for (const topic of topics) {
    if (payload.length + topic.length + 1 > PAYLOAD_BYTES) {
      payloads.push(payload)
      payload = sender
    }
    payload += `\n${topic}`
  }
  return [...payloads, payload]
}
