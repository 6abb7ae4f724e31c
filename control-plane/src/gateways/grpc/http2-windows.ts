// Widens the HTTP/2 receive windows of grpc-js servers: with the default of 64 KiB, an upload over a 100 ms link
// reaches 0.4 MB/s. grpc-js has no option for this but looks up `http2.createSecureServer` when it binds, so this file
// wraps it on the CommonJS module object, for our listener only. Invariant: a listener that starts has wide windows.
// `checkWindows` tests this from outside, since an upgrade of grpc-js could silently undo the wrapping.
import { AsyncLocalStorage } from 'node:async_hooks'
import { connect, type Http2SecureServer, type SecureServerOptions } from 'node:http2'
import { createRequire } from 'node:module'
import type { ConnectionOptions } from 'node:tls'
import { SESSION } from '@berth/shared'

interface ServerHook {
  /** Merged over the options of grpc-js. */
  options: SecureServerOptions
  made: (server: Http2SecureServer) => void
}

type Create = (options: SecureServerOptions, ...rest: unknown[]) => Http2SecureServer

const commonJs = createRequire(import.meta.url)('node:http2') as Record<string, Create>
const binding = new AsyncLocalStorage<ServerHook>()

function wrap(name: 'createSecureServer' | 'createServer'): void {
  const create = commonJs[name] as Create
  commonJs[name] = (options, ...rest) => {
    const hook = binding.getStore()
    if (!hook) return create(options, ...rest)
    const initialWindowSize = SESSION.streamWindowBytes
    const settings = { ...options.settings, ...hook.options.settings, initialWindowSize }
    const server = create({ ...options, ...hook.options, settings }, ...rest)
    server.on('session', (session) => session.setLocalWindowSize(SESSION.connectionWindowBytes))
    hook.made(server)
    return server
  }
}

wrap('createSecureServer')
wrap('createServer')

/** Runs `bind`; every HTTP/2 server that it creates gets the windows and the hook. */
export const bindWithHook = <T>(hook: ServerHook, bind: () => Promise<T>): Promise<T> =>
  binding.run(hook, bind)

interface Seen {
  streamWindow: number | undefined
  connectionWindow: number | undefined
}

/** Who dials the listener, and whom it expects there. */
export type Probe = Pick<
  ConnectionOptions,
  'ca' | 'key' | 'cert' | 'servername' | 'checkServerIdentity'
>

function readWindows(address: string, probe: Probe): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const session = connect(`https://${address}`, { ...probe, minVersion: 'TLSv1.3' })
    const timer = setTimeout(() => finish(new Error('no answer')), SESSION.dialMs)
    const finish = (outcome: Seen | Error): void => {
      clearTimeout(timer)
      session.destroy()
      if (outcome instanceof Error) reject(outcome)
      else resolve(outcome)
    }
    session.on('error', finish)
    session.on('close', () => finish(new Error('the connection was closed')))
    session.on('remoteSettings', (settings) => {
      // the answer to a ping comes after the window update that was sent before it
      session.ping((error) =>
        finish(
          error ?? {
            streamWindow: settings.initialWindowSize,
            connectionWindow: session.state.remoteWindowSize,
          },
        ),
      )
    })
  })
}

/** Dials the listener like a client and rejects unless its windows are wide. */
export async function checkWindows(address: string, probe: Probe, title: string): Promise<void> {
  const { streamWindowBytes, connectionWindowBytes } = SESSION
  const seen = await readWindows(address, probe).catch((cause: Error) => {
    throw new Error(
      `${title} does not answer at ${address} (${cause.message}). Look whether ` +
        'something between this process and its own address interferes.',
      { cause },
    )
  })
  if (seen.streamWindow !== streamWindowBytes || seen.connectionWindow !== connectionWindowBytes)
    throw new Error(
      `${title} offers receive windows of ${seen.streamWindow} and ` +
        `${seen.connectionWindow} bytes instead of ${streamWindowBytes} and ` +
        `${connectionWindowBytes}: ` +
        'this version of Node.js or grpc-js undid their enlarging. Run the pinned versions.',
    )
}
