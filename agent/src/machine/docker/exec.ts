// A command inside a running container. The engine cannot end one; a caller that must takes its host pid and ends the
// process tree. The argv holds no secret values; variables come from the mounted file.
import { posix } from 'node:path'
import { type Engine, toEngineError } from './engine.ts'
import { readFrames } from './logs.ts'

export interface ExecSpec {
  argv: string[]
  /** Relative to the image's working directory; null for that directory. */
  directory: string | null
  /** Visible through inspect. */
  env: string[]
  onOutput: (stream: 'out' | 'err', chunk: Buffer) => void
}

export interface RunningExec {
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

async function workingDirectory(engine: Engine, id: string, wanted: string): Promise<string> {
  const { Config } = await engine.ask<{ Config: { WorkingDir?: string } }>({
    method: 'GET',
    path: `/containers/${encodeURIComponent(id)}/json`,
  })
  return posix.resolve('/', Config.WorkingDir || '/', wanted)
}

/** Resolves when the command runs, or has run already. */
export async function startExec(engine: Engine, id: string, spec: ExecSpec): Promise<RunningExec> {
  const directory =
    spec.directory === null ? null : await workingDirectory(engine, id, spec.directory)
  const made = await engine.ask<{ Id: string }>({
    method: 'POST',
    path: `/containers/${encodeURIComponent(id)}/exec`,
    body: {
      AttachStdout: true,
      AttachStderr: true,
      Cmd: spec.argv,
      Env: spec.env,
      ...(directory === null ? {} : { WorkingDir: directory }),
    },
  })
  const path = `/exec/${made.Id}`
  const look = (): Promise<ExecState> =>
    engine.ask<ExecState>({ method: 'GET', path: `${path}/json` })
  const stream = await engine.open({
    method: 'POST',
    path: `${path}/start`,
    body: { Detach: false, Tty: false },
  })
  const exited = (async () => {
    try {
      for await (const { fd, bytes } of readFrames(stream)) {
        spec.onOutput(fd === 2 ? 'err' : 'out', Buffer.from(bytes))
      }
    } catch (error) {
      throw toEngineError(error)
    }
    const { Running, ExitCode } = await look()
    return Running || ExitCode === null ? undefined : ExitCode
  })()
  return {
    exited,
    async pid() {
      const { Running, Pid } = await look()
      return Running && Pid > 0 ? Pid : undefined
    },
  }
}
