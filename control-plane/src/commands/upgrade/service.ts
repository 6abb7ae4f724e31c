// Stops and starts the control plane of an installation. Where systemd runs its unit, systemctl does it. Elsewhere a file
// makes the launcher wait, so that a service manager cannot start it too early; if nothing restarts it, the upgrade does.
import { execFile, spawn } from 'node:child_process'
import { copyFileSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { UPGRADE } from '../../limits/installation.ts'
import { isAlive, readRunning } from './running.ts'

const run = promisify(execFile)
const UNIT = '/etc/systemd/system/berth-server.service'

export interface Service {
  /** Whether something runs it, or would at the next boot. */
  isUsed(): Promise<boolean>
  stop(): Promise<void>
  /** After the link has moved. */
  start(): Promise<void>
}

export const holdFile = (root: string): string => join(root, 'hold')
/** A start that waits at the hold leaves its pid here. */
const heldFile = (root: string): string => join(root, 'held')

/** The launcher of this version set these to its own folder; another version has its own. */
export function cleanEnvironment(env: NodeJS.ProcessEnv, root: string): NodeJS.ProcessEnv {
  const { BERTH_AGENT_PACKAGES: packages, BERTH_DASHBOARD_DIR: dashboard, ...rest } = env
  const isOwn = (path: string | undefined): boolean => path?.startsWith(`${root}/`) === true
  return {
    ...rest,
    ...(isOwn(packages) ? {} : { BERTH_AGENT_PACKAGES: packages }),
    ...(isOwn(dashboard) ? {} : { BERTH_DASHBOARD_DIR: dashboard }),
  }
}

export function openService(root: string, dataDir: string): Service {
  const isUnit = root === '/opt/berth-server' && existsSync('/run/systemd/system')
  return isUnit ? new SystemdService(root) : new HeldService(root, dataDir)
}

class SystemdService implements Service {
  readonly #root: string
  constructor(root: string) {
    this.#root = root
  }

  async isUsed(): Promise<boolean> {
    const ask = (what: string): Promise<boolean> =>
      run('systemctl', [what, '--quiet', 'berth-server']).then(
        () => true,
        () => false,
      )
    return (await ask('is-enabled')) || (await ask('is-active'))
  }

  async stop(): Promise<void> {
    await run('systemctl', ['stop', 'berth-server'])
  }

  /** A version may bring another unit. */
  async start(): Promise<void> {
    const unit = join(this.#root, 'current/berth-server.service')
    if (existsSync(UNIT) && existsSync(unit) && !readFileSync(unit).equals(readFileSync(UNIT))) {
      copyFileSync(unit, UNIT)
      await run('systemctl', ['daemon-reload'])
    }
    await run('systemctl', ['reset-failed', 'berth-server']).catch(() => undefined)
    await run('systemctl', ['start', '--no-block', 'berth-server'])
  }
}

class HeldService implements Service {
  readonly #root: string
  readonly #dataDir: string
  #wasRunning = false

  constructor(root: string, dataDir: string) {
    this.#root = root
    this.#dataDir = dataDir
  }

  async isUsed(): Promise<boolean> {
    const running = readRunning(this.#dataDir)
    return running !== undefined && isAlive(running)
  }

  async stop(): Promise<void> {
    rmSync(heldFile(this.#root), { force: true })
    writeFileSync(holdFile(this.#root), `${process.pid}\n`)
    const running = readRunning(this.#dataDir)
    if (!running || !isAlive(running)) return
    this.#wasRunning = true
    process.kill(running.pid, 'SIGTERM')
    for (const end = Date.now() + UPGRADE.stopMs; isAlive(running); ) {
      if (Date.now() > end) process.kill(running.pid, 'SIGKILL')
      await delay(UPGRADE.pollMs)
    }
  }

  async start(): Promise<void> {
    rmSync(holdFile(this.#root), { force: true })
    if (!this.#wasRunning) return
    for (const end = Date.now() + UPGRADE.restartMs; Date.now() < end; ) {
      const running = readRunning(this.#dataDir)
      if ((running && isAlive(running)) || existsSync(heldFile(this.#root))) return
      await delay(UPGRADE.pollMs)
    }
    // nothing restarts it here: its output goes on in a file of its data
    const output = openSync(join(this.#dataDir, 'serve.log'), 'a', 0o600)
    spawn(join(this.#root, 'current/bin/berth-server'), ['serve'], {
      detached: true,
      stdio: ['ignore', output, output],
      env: cleanEnvironment(process.env, this.#root),
      cwd: '/',
    }).unref()
  }
}
