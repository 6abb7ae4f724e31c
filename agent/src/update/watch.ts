// `berth-agent updater`: a small process of the old version that outlives the daemon. It moves the link, restarts the
// daemon, and moves the link back unless the new version connects and stays up. It may be killed at any moment: the next
// daemon starts it again, and every step can be repeated.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pointTo, readSlot } from '@berth/shared/slots'
import { UPDATES } from '../limits/maintenance.ts'
import { replaceUnsynced } from '../machine/atomic-files.ts'
import { isSameProcess, readProcess, readStartTicks } from '../machine/process/processes.ts'
import { signalProcess } from '../machine/process/signals.ts'
import { readStatus } from '../maintenance/status.ts'
import type { AgentSettings } from '../settings.ts'
import { readProgram, readStarts, startsFile } from './slots.ts'
import { readUpdate, type UpdateState, updaterFile, writeUpdate } from './state.ts'
import { judge, type Verdict } from './watch-rules.ts'

interface Updater {
  pid: number
  startTicks: string
}

/** Whether an updater of this state directory lives. */
export function isWatched(settings: Pick<AgentSettings, 'runDir'>): boolean {
  try {
    const { pid, startTicks } = JSON.parse(readFileSync(updaterFile(settings), 'utf8')) as Updater
    return isSameProcess(pid, startTicks)
  } catch {
    return false
  }
}

/** `root`: the folder of the versions. */
export async function runUpdater(settings: AgentSettings, root: string): Promise<number> {
  const update = readUpdate(settings)
  if (update?.phase !== 'switching' || isWatched(settings)) return 0
  const { pid } = process
  const self: Updater = { pid, startTicks: readStartTicks(pid) ?? '' }
  replaceUnsynced(updaterFile(settings), JSON.stringify(self))
  const watch = new Watch(settings, root, update)
  await watch.switchOver()
  const verdict = await watch.verdict()
  if (verdict.do === 'keep') watch.keep()
  else await watch.goBack(verdict)
  rmSync(updaterFile(settings), { force: true })
  return 0
}

class Watch {
  readonly #settings: AgentSettings
  readonly #root: string
  readonly #update: UpdateState
  #aloneSince: number | undefined

  constructor(settings: AgentSettings, root: string, update: UpdateState) {
    this.#settings = settings
    this.#root = root
    this.#update = update
  }

  /** Also after an interruption: what was done already is left as it is. */
  async switchOver(): Promise<void> {
    const { from, to } = this.#update
    pointTo(this.#root, 'previous', from.slot)
    if (!existsSync(startsFile(this.#root)))
      writeFileSync(startsFile(this.#root), '', { mode: 0o600 })
    if (readSlot(this.#root, 'current') !== to.slot) pointTo(this.#root, 'current', to.slot)
    const running = readStatus(this.#settings)
    if (running && this.#slotOf(running.pid) !== to.slot) await endProcess(running.pid)
  }

  #slotOf(pid: number): string | undefined {
    const program = readProgram(pid)
    return program?.startsWith(`${this.#root}/`)
      ? program.slice(this.#root.length + 1).split('/', 1)[0]
      : undefined
  }

  /** Its shell has not become the daemon yet, or it is the daemon. */
  #isAlive(pid: number): boolean {
    const slot = this.#slotOf(pid)
    return readProcess(pid) !== undefined && (slot === undefined || slot === this.#update.to.slot)
  }

  async verdict(): Promise<Exclude<Verdict, { do: 'wait' }>> {
    let began = performance.now()
    let activeSince: number | undefined
    let ends = 0
    let wasActive = false
    for (;;) {
      const now = performance.now()
      const starts = readStarts(this.#root)
      const living = starts.filter((pid) => this.#isAlive(pid))
      const status = readStatus(this.#settings)
      const isNew = status !== undefined && this.#slotOf(status.pid) === this.#update.to.slot
      if (starts.length - living.length > ends) {
        // the next start has to prove itself from the beginning
        ends = starts.length - living.length
        began = now
        activeSince = undefined
      }
      if (isNew && status.phase === 'active') {
        activeSince ??= now
        wasActive = true
      }
      const verdict = judge({
        elapsedMs: now - began,
        ends,
        wasActive,
        isAlive: living.length > 0,
        activeForMs: activeSince === undefined ? undefined : now - activeSince,
        stayMs: this.#settings.updateStayMs ?? UPDATES.stayMs,
      })
      if (verdict.do !== 'wait') return verdict
      this.#startIfAlone(living.length > 0 || status !== undefined, now)
      await delay(UPDATES.pollMs)
    }
  }

  /** Without a service manager that restarts the daemon, this does. */
  #startIfAlone(runs: boolean, now: number): void {
    if (runs) this.#aloneSince = undefined
    else if (this.#aloneSince === undefined) this.#aloneSince = now
    else if (now - this.#aloneSince >= UPDATES.restartMs) {
      this.#aloneSince = undefined
      spawn(join(this.#root, 'current/bin/berth-agent'), ['run'], {
        detached: true,
        stdio: 'ignore',
        cwd: '/',
      }).unref()
    }
  }

  keep(): void {
    rmSync(startsFile(this.#root), { force: true })
    writeUpdate(this.#settings, { ...this.#update, phase: 'kept', message: '' })
  }

  async goBack({ why }: Extract<Verdict, { do: 'return' }>): Promise<void> {
    const { from, to } = this.#update
    pointTo(this.#root, 'current', from.slot)
    const message = `Version ${to.version} was undone. ${why} Version ${from.version} runs again. The server's log says more: journalctl -u berth-agent`
    writeUpdate(this.#settings, { ...this.#update, phase: 'returned', message })
    const starts = readStarts(this.#root)
    rmSync(startsFile(this.#root), { force: true })
    for (const pid of starts) if (this.#isAlive(pid)) await endProcess(pid)
    for (const end = performance.now() + UPDATES.activeMs; performance.now() < end; ) {
      const status = readStatus(this.#settings)
      if (status !== undefined && this.#slotOf(status.pid) === from.slot) return
      this.#startIfAlone(status !== undefined, performance.now())
      await delay(UPDATES.pollMs)
    }
  }
}

/** SIGTERM, which flushes and says goodbye; SIGKILL to one that hangs. Nothing else of the agent ends with it. */
async function endProcess(pid: number): Promise<void> {
  const ticks = readStartTicks(pid)
  if (ticks === undefined) return
  signalProcess(pid, 'SIGTERM')
  for (const end = performance.now() + UPDATES.endMs; isSameProcess(pid, ticks); ) {
    if (performance.now() > end) signalProcess(pid, 'SIGKILL')
    await delay(UPDATES.pollMs)
  }
}
