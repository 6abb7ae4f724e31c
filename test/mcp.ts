// `berth mcp` as a child process behind the official client, in either protocol era, with every byte it wrote.
import type { ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { nowhere, testEnvironment } from '../cli/src/testing/berth.ts'

const MAIN = fileURLToPath(new URL('../cli/src/main.ts', import.meta.url))

export const ERAS = ['2025-11-25', '2026-07-28'] as const
export type Era = (typeof ERAS)[number]

/** As the SDK's own, and keeps what passes. */
class Tapped extends StdioClientTransport {
  readonly #chunks: Buffer[] = []

  get stdout(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }

  override async start(): Promise<void> {
    await super.start()
    const { _process } = this as unknown as { _process: ChildProcess }
    _process.stdout?.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk)
    })
  }
}

export interface Told {
  text: string
  data: Record<string, unknown>
  isError: boolean
}

export interface Session {
  client: Client
  era: Era
  call(
    name: string,
    input?: Record<string, unknown>,
    options?: Parameters<Client['callTool']>[1],
  ): Promise<Told>
  /** All it wrote until now. */
  stdout(): string
  stderr(): string
  close(): Promise<void>
}

const open = new Set<Session>()

/** For afterEach or afterAll: no server outlives its test. */
export async function closeSessions(): Promise<void> {
  await Promise.all([...open].map((session) => session.close()))
}

export async function startMcp(
  era: Era,
  args: string[],
  env: Record<string, string>,
): Promise<Session> {
  const transport = new Tapped({
    command: process.execPath,
    args: [MAIN, 'mcp', ...args],
    env: testEnvironment(env),
    cwd: tmpdir(),
    stderr: 'pipe',
  })
  let stderr = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString('utf8')
  })
  const mode = era === '2026-07-28' ? { pin: era } : ('legacy' as const)
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(transport).catch((error: unknown) => {
    throw new Error(`berth mcp did not answer: ${stderr}`, { cause: error })
  })
  const session: Session = {
    client,
    era,
    async call(name, input = {}, options) {
      const result = await client.callTool({ name, arguments: input }, options)
      const [first] = result.content
      return {
        text: first?.type === 'text' ? first.text : '',
        data: (result.structuredContent ?? {}) as Record<string, unknown>,
        isError: result.isError === true,
      }
    },
    stdout: () => transport.stdout,
    stderr: () => stderr,
    async close() {
      open.delete(session)
      await client.close()
    },
  }
  open.add(session)
  return session
}

/** The variables of somebody who is logged in; without a token: of nobody. */
export const loggedIn = (url: string, token: string | null): Record<string, string> =>
  token === null
    ? { BERTH_CONFIG_DIR: join(tmpdir(), `berth-nobody-${randomUUID()}`) }
    : { BERTH_CONFIG_DIR: nowhere(), BERTH_URL: url, BERTH_TOKEN: token }

/** The messages on stdout; anything else there is an error. */
export function frames(stdout: string): Record<string, unknown>[] {
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const frame = JSON.parse(line) as Record<string, unknown>
      if (frame.jsonrpc !== '2.0') throw new Error(`not the protocol: ${line.slice(0, 200)}`)
      return frame
    })
}

/** Something a script waits for until the test lets it go on. */
export function gate(): { opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}
