// berth mcp: serves MCP over stdin and stdout until stdin ends. stdout carries only the protocol; console is redirected
// to stderr, so that libraries cannot print there. A wrong project or environment fails the start, a missing login does
// not, because MCP hosts show answers of tools, but rarely why a server did not start.
import { Console } from 'node:console'
import { Writable } from 'node:stream'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import { trustAuthority } from '../client/login.ts'
import { type Context, compose, flagOn, type Invocation } from '../context.ts'
import { MCP } from '../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import { createGateway, type Gateway } from './gateway.ts'
import { createServer } from './server.ts'
import { createTargets, type Targets } from './targets.ts'

interface ServeOptions {
  allowWrite: boolean
}

/** Redirects every method of the console to stderr. */
function turnConsole({ stderr }: Io): void {
  const sink = new Writable({
    write: (chunk: Buffer, _encoding, done) => void stderr.write(chunk).then(() => done(), done),
  })
  Object.assign(console, new Console({ stdout: sink, stderr: sink }))
}

/** Failures that a login, a retry or a better network can fix. */
const PASSING: readonly ExitCode[] = [EXIT.notLoggedIn, EXIT.error, EXIT.interrupted]

/** Fixes the project and the environment to what their names mean now. */
async function settle(gateway: Gateway, targets: Targets, io: Io): Promise<void> {
  try {
    const { api } = await gateway.open(AbortSignal.timeout(2 * MCP.pinMs))
    await targets.settle(api, { retries: 0, timeoutMs: MCP.pinMs })
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    if (io.interrupted.aborted || !PASSING.includes(error.exitCode)) throw error
    await io.stderr.write(`berth mcp: ${error.message}; asked again at the first call\n`)
  }
}

/** Until the host closes stdin, or Ctrl-C. */
async function serveUntilClosed(serve: () => ReturnType<typeof createServer>, io: Io) {
  const limits = { maxBufferSize: MCP.messageBytes }
  const transport = new StdioServerTransport(undefined, undefined, limits)
  const handle = serveStdio(serve, {
    transport,
    // unreadable input is not repeated, because it may contain a value
    onerror: (error) => void io.stderr.write(`berth mcp: ${error.name} in the protocol\n`),
  })
  const served = transport.onclose
  await new Promise<void>((resolve) => {
    transport.onclose = () => {
      served?.()
      resolve()
    }
    const stop = () => void handle.close().then(resolve)
    if (io.interrupted.aborted) stop()
    else io.interrupted.addEventListener('abort', stop, { once: true })
  })
}

async function performServe(options: ServeOptions, context: Context): Promise<ExitCode> {
  const { io, globals } = context
  if (io.stdin.isTTY) {
    throw usage(
      'berth mcp is started by a program that speaks MCP on stdin, and this is a terminal',
      'berth mcp install --client claude-code (or cursor, vscode) prints what to put into its configuration',
    )
  }
  turnConsole(io)
  await trustAuthority(globals, io.env)
  const targets = createTargets({
    project: globals.project ?? (io.env.BERTH_PROJECT || undefined),
    environment: globals.env ?? (io.env.BERTH_ENV || undefined),
  })
  const gateway = createGateway(globals, io)
  await settle(gateway, targets, io)
  await serveUntilClosed(() => createServer({ ...options, gateway, targets, io }), io)
  return io.interrupted.aborted ? EXIT.interrupted : EXIT.done
}

export const serve = compose(
  ({ flags }: Invocation): ServeOptions => ({ allowWrite: flagOn(flags, 'allowWrite') }),
  performServe,
)
