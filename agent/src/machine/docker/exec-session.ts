// An interactive command inside a running container, with or without a terminal. The engine cannot end one; a caller
// that must takes its host pid and ends the process tree.
import type { Duplex } from 'node:stream'
import { type Engine, getContainer } from './engine.ts'
import { toEngineError } from './engine-error.ts'
import { readExitCode, readPid } from './exec.ts'
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

export async function talkToExec(
  engine: Engine,
  containerId: string,
  spec: TalkSpec,
): Promise<TalkingExec> {
  const hasTerminal = spec.terminal !== null
  const container = await getContainer(engine, containerId)
  const exec = await container.exec({
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: hasTerminal,
    Cmd: spec.argv,
    Env: spec.env,
  })
  const resize: TalkingExec['resize'] = ({ columns, rows }) => {
    exec.resize({ w: columns, h: rows }).catch(() => undefined)
  }
  const stream = await exec.start({ hijack: true, Detach: false, Tty: hasTerminal })
  if (spec.terminal) resize(spec.terminal)
  const exited = (async () => {
    try {
      if (hasTerminal) {
        for await (const chunk of stream as AsyncIterable<Buffer>) await spec.onOutput('out', chunk)
      } else {
        for await (const { fd, bytes } of readFrames(stream)) {
          await spec.onOutput(fd === 2 ? 'err' : 'out', Buffer.from(bytes))
        }
      }
    } catch (error) {
      throw toEngineError(error)
    } finally {
      stream.destroy()
    }
    return readExitCode(exec)
  })()
  return { input: stream, resize, exited, pid: () => readPid(exec) }
}
