// One connection of a simulated agent: mutual TLS and gRPC frames over plain HTTP/2. A client of grpc-js would take ten
// times the memory, and this machine also runs what is measured.
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { createSecureContext, connect as dialTls, type TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'

/** Every certificate of the agents' listener contains it. */
const CONTROL_PLANE_NAME = 'berth-control-plane'
const HEAD = 5

export interface Credentials {
  ca: string
  key: string
  certificate: string
}

/** Splits the bytes of a stream into messages. */
class Frames {
  #rest: Buffer = Buffer.alloc(0)

  push(bytes: Buffer): Buffer[] {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const messages: Buffer[] = []
    while (this.#rest.length >= HEAD) {
      const end = HEAD + this.#rest.readUInt32BE(1)
      if (this.#rest.length < end) break
      messages.push(this.#rest.subarray(HEAD, end))
      this.#rest = this.#rest.subarray(end)
    }
    return messages
  }
}

export class Call {
  readonly #stream: ClientHttp2Stream

  constructor(
    session: ClientHttp2Session,
    method: string,
    on: { message: (bytes: Buffer) => void; end: (why: string) => void },
  ) {
    this.#stream = session.request({
      ':method': 'POST',
      ':path': `/berth.agent.v1.AgentService/${method}`,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    const frames = new Frames()
    let why = 'the control plane ended the stream'
    this.#stream.on('data', (bytes: Buffer) => {
      for (const message of frames.push(bytes)) on.message(message)
    })
    this.#stream.on('trailers', (fields) => {
      if (fields['grpc-message']) why = String(fields['grpc-message'])
    })
    this.#stream.on('error', (error: Error) => on.end(error.message))
    this.#stream.on('close', () => on.end(why))
  }

  send(bytes: Uint8Array): void {
    if (this.#stream.closed || this.#stream.destroyed) return
    const frame = Buffer.allocUnsafe(HEAD + bytes.length)
    frame[0] = 0
    frame.writeUInt32BE(bytes.length, 1)
    frame.set(bytes, HEAD)
    this.#stream.write(frame)
  }

  end(): void {
    this.#stream.end()
  }
}

export class Connection {
  readonly #session: ClientHttp2Session
  readonly #socket: TLSSocket
  #keepalive: NodeJS.Timeout | undefined

  constructor(
    { host, port }: { host: string; port: number },
    credentials: Credentials,
    on: { ready: () => void; failed: (why: string) => void },
  ) {
    const secureContext = createSecureContext({
      ca: credentials.ca,
      key: credentials.key,
      cert: credentials.certificate,
      minVersion: 'TLSv1.3',
    })
    this.#socket = dialTls({
      host,
      port,
      secureContext,
      servername: CONTROL_PLANE_NAME,
      ALPNProtocols: ['h2'],
    })
    this.#session = connect(`https://${CONTROL_PLANE_NAME}`, {
      createConnection: () => this.#socket,
    })
    this.#session.on('error', (error) => on.failed(error.message))
    this.#session.on('close', () => on.failed('the connection was closed'))
    this.#session.once('remoteSettings', () => {
      this.#keepalive = setInterval(() => {
        if (!this.#session.destroyed) this.#session.ping(() => {})
      }, SESSION.keepaliveMs)
      on.ready()
    })
  }

  open(method: string, on: ConstructorParameters<typeof Call>[2]): Call {
    return new Call(this.#session, method, on)
  }

  cut(): void {
    clearInterval(this.#keepalive)
    this.#session.destroy()
    this.#socket.destroy()
  }
}
