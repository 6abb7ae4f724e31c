// Copies bytes of a large file between the process of a session and its forced command with a system program, because
// copying in Node.js costs as much as sshd's encryption. It starts once the other side no longer reads frames:
// FRAME.raw with the length, FRAME.go as the answer, then exactly that many bytes. Invariant: a break inside them ends
// the connection without another frame, so a frame is never mistaken for bytes of a file.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Socket } from 'node:net'

const PROGRAMS = ['/usr/bin/dd', '/bin/dd']
const BLOCK = 256 * 1_024

function copier(): string | undefined {
  return PROGRAMS.find((file) => existsSync(file))
}

type End = Socket | number | 'inherit'

/** Resolves with whether it copied; fewer bytes than requested count as success. */
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

/** Whether this machine's program supports the options we use. */
export const canPass = (): Promise<boolean> =>
  copy({ from: 'inherit', to: 'inherit' }, { offset: 0, length: 0 })

/** From a file into the connection. */
export const passOut = (
  fd: number,
  to: Socket,
  part: { offset: number; length: number },
  signal: AbortSignal,
): Promise<boolean> => copy({ from: fd, to }, part, signal)

/** From the connection, which has no other reader meanwhile, to sshd. */
export const passIn = (from: Socket, length: number): Promise<boolean> =>
  copy({ from, to: 'inherit' }, { offset: 0, length }).catch(() => false) // the connection was closed
