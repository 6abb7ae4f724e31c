// An interactive command inside a running container, with or without a terminal. The engine cannot end one; a caller
// that must takes its host pid and ends the process tree.
import type { Duplex } from 'node:stream'
import { type Engine, toEngineError } from './engine.ts'
import { hijack } from './hijack.ts'
import { readFrames } from './logs.ts'

export interface TalkSpec {
  argv: string[]
  /** Visible through inspect. */
  env: string[]
  terminal: { columns: number; rows: number } | null
  /** Awaited, so that a slow reader slows the engine's output down. */
  onOutput: (stream: 'out' | 'err', chunk: Buffer) => Promise<void>
}

export interface TalkingExec {
  input: Duplex
  resize(size: { columns: number; rows: number }): void
  /** On the host; undefined when it has ended already. */
  pid(): Promise<number | undefined>
  /** Undefined when the container ended, and the command with it. */
  exited: Promise<number | undefined>
}

interface ExecState {
  Running: boolean
  ExitCode: number | null
  Pid: number
}

export async function talkToExec(
  engine: Engine,
  containerId: string,
  spec: TalkSpec,
): Promise<TalkingExec> {
  const { line, close } = engine.lease()
  const hasTerminal = spec.terminal !== null
  try {
    const { Id } = await engine.ask<{ Id: string }>({
      method: 'POST',
      path: `/containers/${encodeURIComponent(containerId)}/exec`,
      body: {
        AttachStdin: true,
        AttachStdout: true,
        AttachStderr: true,
        Tty: hasTerminal,
        Cmd: spec.argv,
        Env: spec.env,
      },
    })
    const path = `/exec/${Id}`
    const look = (): Promise<ExecState> =>
      engine.ask<ExecState>({ method: 'GET', path: `${path}/json` })
    const resize: TalkingExec['resize'] = ({ columns, rows }) => {
      const query = { w: columns, h: rows }
      engine.ask({ method: 'POST', path: `${path}/resize`, query }).catch(() => undefined)
    }
    const body = { Detach: false, Tty: hasTerminal }
    const stream = await hijack(line, { path: `${path}/start`, protocol: 'tcp', body })
    if (spec.terminal) resize(spec.terminal)
    const exited = (async () => {
      try {
        if (hasTerminal) {
          for await (const chunk of stream as AsyncIterable<Buffer>)
            await spec.onOutput('out', chunk)
        } else {
          for await (const { fd, bytes } of readFrames(stream)) {
            await spec.onOutput(fd === 2 ? 'err' : 'out', Buffer.from(bytes))
          }
        }
      } catch (error) {
        throw toEngineError(error)
      } finally {
        close()
      }
      const { Running, ExitCode } = await look()
      return Running || ExitCode === null ? undefined : ExitCode
    })()
    return {
      input: stream,
      resize,
      exited,
      async pid() {
        const { Running, Pid } = await look()
        return Running && Pid > 0 ? Pid : undefined
      },
    }
  } catch (error) {
    close()
    throw toEngineError(error)
  }
}
