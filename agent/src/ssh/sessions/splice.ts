// Bytes of a large file between the process of a session and its forced command, copied by a program of the system: through
// Node.js each of them costs as much as sshd's encryption. Between frames, and only after the other side has said that it
// reads none any more: FRAME.raw with their number, FRAME.go as the answer, then exactly that many bytes. Invariant: what
// breaks inside them ends the connection without another frame, so that no frame is ever taken for bytes of a file.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'

const PROGRAMS = ['/usr/bin/dd', '/bin/dd']
const BLOCK = 256 * 1_024

function copier(): string | undefined {
  return PROGRAMS.find((file) => existsSync(file))
}

type End = Socket | number | 'inherit'

/** Resolves with whether it copied; fewer bytes than asked for are no failure of it. */
function copy(
  { from, to }: { from: End; to: End },
  part: { offset: number; length: number },
  signal?: AbortSignal,
): Promise<boolean> {
  const program = copier()
  if (!program) return Promise.resolve(false)
  const flags = 'iflag=skip_bytes,count_bytes,fullblock'
  const argv = [`bs=${BLOCK}`, `skip=${part.offset}`, `count=${part.length}`, flags, 'status=none']
  return new Promise((resolve) => {
    const child = spawn(program, argv, {
      cwd: '/',
      env: {},
      stdio: [from, to, 'ignore'],
      ...(signal ? { signal } : {}),
    })
    const kill = (): void => void child.kill('SIGKILL')
    process.once('exit', kill)
    child.once('error', () => resolve(false))
    child.once('close', (code) => {
      process.off('exit', kill)
      resolve(code === 0)
    })
  })
}

/** Whether this machine's program understands what it will be asked. */
export const canPass = (): Promise<boolean> =>
  copy({ from: 'inherit', to: 'inherit' }, { offset: 0, length: 0 })

/** From a file into the connection. */
export const passOut = (
  fd: number,
  to: Socket,
  part: { offset: number; length: number },
  signal: AbortSignal,
): Promise<boolean> => copy({ from: fd, to }, part, signal)

/** From the connection, which nobody else reads meanwhile, to what sshd reads. */
export const passIn = (from: Socket, length: number): Promise<boolean> =>
  copy({ from, to: 'inherit' }, { offset: 0, length }).catch(() => false) // it was closed
