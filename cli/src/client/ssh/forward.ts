// Connections to ports of services through one session by SSH (shared/ssh/channels.ts). The session is opened when it is
// needed: at the start, and again for the next connection after it ended. Every new one gets a new certificate, so a
// right that was taken away ends the forwarding.
import type { Socket } from 'node:net'
import { Channels } from '@berth/shared/ssh'
import { type CliError, interrupted } from '../../terminal/exit.ts'
import type { Io } from '../../terminal/io.ts'
import type { Api } from '../api.ts'
import { explainEnd, openSession, SSH_REFUSED, type SshEnd } from './run.ts'
import { openEndpoint, type SshPlace } from './ssh.ts'

export interface ForwardTarget {
  service: string | undefined
  port: number
}

interface ForwardSource {
  api: Api
  io: Io
  place: SshPlace
  /** A connection was not possible, or the session ended and will be opened again. */
  onTrouble(message: string): void
}

interface OpenForward {
  channels: Channels
  close(): Promise<SshEnd>
  /** Why it ended. */
  over: Promise<{ end: SshEnd; problem: CliError }>
}

const wordOf = ({ service, port }: ForwardTarget): string => `${service ?? '-'}:${port}`

/** Resolves when the server is ready for connections. */
async function openForward(
  { api, io, place }: ForwardSource,
  targets: readonly ForwardTarget[],
): Promise<OpenForward> {
  const endpoint = await openEndpoint({ api, io }, place, 'forward')
  let said = ''
  let ready = (): void => {}
  const isReady = new Promise<void>((resolve) => {
    ready = resolve
  })
  const session = openSession(io, endpoint.argv(['forward', ...targets.map(wordOf)]), {
    onError(chunk) {
      said += chunk
      if (said.includes('ready\n')) ready()
    },
  })
  const channels = new Channels({ send: (frame) => void session.input.write(frame) })
  session.stdout.on('data', (chunk: Buffer) => {
    try {
      channels.receive(chunk)
    } catch {
      void session.close().catch(() => {})
    }
  })
  const over = session.ended
    .finally(() => {
      channels.destroy()
      endpoint.close()
    })
    .then((end) => ({ end, problem: explainEnd(end, endpoint) }))
  over.catch(() => {}) // reported to the caller that awaits it
  const failed = over.then(({ problem }) => {
    throw problem
  })
  await Promise.race([isReady, failed])
  failed.catch(() => {})
  return { channels, close: () => session.close(), over }
}

export class Forwarding {
  readonly #source: ForwardSource
  readonly #targets: readonly ForwardTarget[]
  #current: Promise<OpenForward> | undefined
  #refuse: (problem: CliError) => void = () => {}
  /** Rejects when the right to forward has ended; never resolves. */
  readonly refused: Promise<never>

  constructor(source: ForwardSource, targets: readonly ForwardTarget[]) {
    this.#source = source
    this.#targets = targets
    this.refused = new Promise<never>((_, reject) => {
      this.#refuse = reject
    })
    this.refused.catch(() => {})
  }

  /** Opens the session, so that a refusal is known before the first connection. */
  async open(): Promise<void> {
    await this.#session()
  }

  #session(): Promise<OpenForward> {
    this.#current ??= openForward(this.#source, this.#targets).then(
      (opened) => {
        void opened.over.then(({ end, problem }) => this.#ended(end, problem))
        return opened
      },
      (error: unknown) => {
        this.#current = undefined
        throw error
      },
    )
    return this.#current
  }

  #ended({ code }: SshEnd, problem: CliError): void {
    this.#current = undefined
    if (this.#source.io.interrupted.aborted) return
    if (code === SSH_REFUSED) this.#refuse(problem)
    else this.#source.onTrouble(`${problem.message}; the next connection opens a new session`)
  }

  /** Takes a connection that was accepted here. */
  accept(index: number, socket: Socket): void {
    socket.on('error', () => undefined)
    this.#session().then(
      ({ channels }) => channels.open(index, socket, (reason) => this.#source.onTrouble(reason)),
      (error: CliError) => {
        socket.destroy()
        this.#source.onTrouble(error.message)
      },
    )
  }

  async close(): Promise<void> {
    const opened = await this.#current?.catch(() => undefined)
    await opened?.close().catch(() => {})
  }

  /** Until the user stops it or the right ends. */
  async run(): Promise<never> {
    const { io } = this.#source
    const stopped = new Promise<never>((_, reject) => {
      const stop = (): void => reject(interrupted('forwarding ended'))
      if (io.interrupted.aborted) stop()
      else io.interrupted.addEventListener('abort', stop, { once: true })
    })
    return Promise.race([this.refused, stopped])
  }
}
