// Queries sshd, with deadlines: validity of a configuration, effective settings of a user, its greeting. Reloads it.
import { readFileSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { SSHD } from '../../limits/ssh.ts'
import { readProcess } from '../../machine/process/processes.ts'
import { runProgram } from '../../machine/process/programs.ts'
import { signalProcess } from '../../machine/process/signals.ts'

export interface Sshd {
  /** The program and its first arguments. */
  argv: string[]
  config: string
  pidFile: string
}

async function ask(sshd: Sshd, args: string[]): Promise<{ ok: boolean; text: string }> {
  const argv = [...sshd.argv, ...args, '-f', sshd.config]
  const done = await runProgram(argv, { timeoutMs: SSHD.programMs })
  const text = `${done.stdout.toString('utf8')}${done.stderr}`
  return { ok: done.code === 0, text: text.trim() }
}

/** Undefined when the configuration is valid. */
export async function findFault(sshd: Sshd): Promise<string | undefined> {
  const { ok, text } = await ask(sshd, ['-t'])
  return ok ? undefined : text.slice(0, 500) || 'sshd -t failed'
}

/** The settings in effect for a login as `user`. */
export async function readEffect(sshd: Sshd, user: string): Promise<string> {
  const { ok, text } = await ask(sshd, ['-T', '-C', `user=${user},host=probe,addr=192.0.2.1`])
  if (!ok) throw new Error(`sshd -T failed for ${user}: ${text.slice(0, 300)}`)
  return text
}

/** Its address, as seen from this machine. */
export function readListener(effect: string): { address: string; port: number } {
  const port = Number(/^port (\d+)$/m.exec(effect)?.[1] ?? 22)
  const listening = [...effect.matchAll(/^listenaddress (\S+):(\d+)$/gm)]
  const any = listening.some(([, at]) => at === '0.0.0.0' || at === '[::]')
  const first = listening[0]?.[1]?.replace(/^\[(.*)\]$/, '$1')
  return { address: any || !first ? '127.0.0.1' : first, port }
}

export const readHostKeyFile = (effect: string): string | undefined =>
  [...effect.matchAll(/^hostkey (\S+)$/gm)]
    .map(([, file]) => file)
    .find((file) => /ed25519/.test(file ?? ''))

const greets = (at: { address: string; port: number }): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(at.port, at.address)
    const finish = (ok: boolean): void => {
      socket.destroy()
      resolve(ok)
    }
    socket.once('data', (said) => finish(said.toString('latin1').startsWith('SSH-2.0')))
    socket.once('error', () => finish(false))
    socket.setTimeout(SSHD.probeMs, () => finish(false))
  })

export async function awaitGreeting(at: { address: string; port: number }): Promise<boolean> {
  const deadline = performance.now() + SSHD.greetMs
  while (!(await greets(at))) {
    if (performance.now() > deadline) return false
    await delay(100)
  }
  return true
}

/** Of the listening daemon; undefined when there is none. */
export function findDaemon({ pidFile }: Pick<Sshd, 'pidFile'>): number | undefined {
  try {
    const pid = Number(readFileSync(pidFile, 'utf8').trim())
    return readProcess(pid)?.name.startsWith('sshd') ? pid : undefined
  } catch {
    return undefined
  }
}

/** Changes when sshd writes the file again; it removes the file before a restart and makes a new one. */
function pidFileState({ pidFile }: Pick<Sshd, 'pidFile'>): string | undefined {
  const found = statSync(pidFile, { bigint: true, throwIfNoEntry: false })
  return found && `${found.ino} ${found.mtimeNs}`
}

/**
 * Keeps the process and all sessions, and returns when the new configuration is in effect. A restarted sshd writes its
 * pid file after it listens again; a greeting alone may come from the old one, which is about to close its port. False
 * when there is no daemon, or it did not come back.
 */
export async function reload(sshd: Pick<Sshd, 'pidFile'>): Promise<boolean> {
  const pid = findDaemon(sshd)
  if (pid === undefined) return false
  const before = pidFileState(sshd)
  if (!signalProcess(pid, 'SIGHUP')) return false
  const deadline = performance.now() + SSHD.reloadMs
  const isDone = (): boolean => pidFileState(sshd) !== before && findDaemon(sshd) === pid
  while (!isDone() && performance.now() < deadline) await delay(SSHD.reloadPollMs)
  return findDaemon(sshd) !== undefined
}
