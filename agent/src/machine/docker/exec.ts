// A command inside a running container. The engine cannot end one; a caller that must takes its host pid and ends the
// process tree. The argv holds no secret values; variables come from the mounted file.
import type { Exec } from 'dockerode'
import { containerFolder } from './archive.ts'
import { type Engine, getContainer } from './engine.ts'
import { toEngineError } from './engine-error.ts'
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

/** Resolves when the command runs, or has run already. */
export async function startExec(engine: Engine, id: string, spec: ExecSpec): Promise<RunningExec> {
  const container = await getContainer(engine, id)
  const directory =
    spec.directory === null ? null : await containerFolder(engine, id, spec.directory)
  const exec = await container.exec({
    AttachStdout: true,
    AttachStderr: true,
    Cmd: spec.argv,
    Env: spec.env,
    ...(directory === null ? {} : { WorkingDir: directory }),
  })
  const stream = await exec.start({ Detach: false, Tty: false })
  const exited = (async () => {
    try {
      for await (const { fd, bytes } of readFrames(stream)) {
        spec.onOutput(fd === 2 ? 'err' : 'out', Buffer.from(bytes))
      }
    } catch (error) {
      throw toEngineError(error)
    }
    return readExitCode(exec)
  })()
  return { exited, pid: () => readPid(exec) }
}

/** Undefined when its container ended first. */
export async function readExitCode(exec: Exec): Promise<number | undefined> {
  const { Running, ExitCode } = await exec.inspect()
  return Running || ExitCode === null ? undefined : ExitCode
}

/** On the host; undefined when it has ended. */
export async function readPid(exec: Exec): Promise<number | undefined> {
  const { Running, Pid } = await exec.inspect()
  return Running && Pid > 0 ? Pid : undefined
}
