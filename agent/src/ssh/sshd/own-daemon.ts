// Our own sshd, where the server's cannot be used: its own port, host key and configuration. It is detached, found by
// its pid file, and restarted when it died. Nothing of the owner's sshd is read or changed.
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { SSHD } from '../../limits/ssh.ts'
import { replaceFile } from '../../machine/atomic-files.ts'
import { locateProgram, runProgram, SYSTEM_PATH } from '../../machine/process/programs.ts'
import { signalProcess } from '../../machine/process/signals.ts'
import type { AgentSettings } from '../../settings.ts'
import { sshPaths } from '../paths.ts'
import { renderOwnConfig } from './config.ts'
import { awaitGreeting, findDaemon, findFault, reload, type Sshd } from './control.ts'

export function ownSshd(settings: AgentSettings): Sshd {
  const { ownConfig, ownPidFile } = sshPaths(settings)
  return { argv: [requireSshd()], config: ownConfig, pidFile: ownPidFile }
}

export function requireSshd(): string {
  const found = locateProgram('sshd')
  if (found) return found
  throw new Error('No OpenSSH server is installed: people cannot connect to environments.')
}

async function ensureHostKey(settings: AgentSettings): Promise<void> {
  const { ownHostKey } = sshPaths(settings)
  if (existsSync(ownHostKey)) return
  const argv = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'berth', '-f', ownHostKey]
  const made = await runProgram(argv, { timeoutMs: SSHD.programMs })
  if (made.code !== 0) throw new Error(`No host key could be made: ${made.stderr.trim()}`)
}

const listener = (settings: AgentSettings) => {
  const { address, port } = settings.ssh.own
  return { address: address === '0.0.0.0' ? '127.0.0.1' : address, port }
}

/** Afterwards the daemon answers with the current configuration. Throws a sentence otherwise. */
export async function keepOwnSshd(settings: AgentSettings): Promise<void> {
  const paths = sshPaths(settings)
  const sshd = ownSshd(settings)
  mkdirSync(settings.ssh.dir, { recursive: true, mode: 0o755 })
  mkdirSync('/run/sshd', { recursive: true, mode: 0o755 }) // for its privilege separation
  await ensureHostKey(settings)
  const text = renderOwnConfig(settings, existsSync(paths.hostCertificate))
  const isNew = !existsSync(sshd.config) || readFileSync(sshd.config, 'utf8') !== text
  if (isNew) replaceFile(sshd.config, text, 0o644)
  if (findDaemon(sshd) !== undefined) {
    if (isNew) await reload(sshd)
    return
  }
  const fault = await findFault(sshd)
  if (fault) throw new Error(`The configuration of Berth's own sshd is refused: ${fault}`)
  const isUp = await awaitDaemon(start(sshd, paths.ownLog), sshd)
  if (!isUp || !(await awaitGreeting(listener(settings)))) {
    const said = readFileSync(paths.ownLog, 'utf8').trim().split('\n').at(-1)
    throw new Error(`Berth's own sshd does not answer on port ${settings.ssh.own.port}: ${said}`)
  }
}

/** Waits for its pid file, which proves that it listens. A greeting alone may come from another process on the port. */
async function awaitDaemon(child: ChildProcess, sshd: Sshd): Promise<boolean> {
  const deadline = performance.now() + SSHD.reloadMs
  const isOver = (): boolean => child.pid === undefined || child.exitCode !== null
  while (findDaemon(sshd) === undefined) {
    if (isOver() || performance.now() > deadline) return false
    await delay(SSHD.reloadPollMs)
  }
  return true
}

function start(sshd: Sshd, logFile: string): ChildProcess {
  const log = openSync(logFile, 'a', 0o600)
  try {
    const [file = '', ...args] = sshd.argv
    const child = spawn(file, [...args, '-D', '-e', '-f', sshd.config], {
      cwd: '/',
      env: { PATH: SYSTEM_PATH },
      stdio: ['ignore', log, log],
      detached: true,
    })
    child.on('error', () => undefined)
    child.unref()
    return child
  } finally {
    closeSync(log)
  }
}

/** Existing connections stay; new ones are refused. */
export async function stopOwnSshd(settings: AgentSettings): Promise<void> {
  if (!locateProgram('sshd')) return
  const sshd = ownSshd(settings)
  const pid = findDaemon(sshd)
  if (pid === undefined) return
  signalProcess(pid, 'SIGTERM')
  const deadline = performance.now() + SSHD.greetMs
  while (findDaemon(sshd) === pid && performance.now() < deadline) await delay(50)
}
