// The supervisor of this server's services (`berth-agent supervise`): one process for all of them. It is detached, so
// daemon, runner and control plane may come and go; and it may come and go itself, because each command has a keeper
// (keeper.ts), and a new supervisor continues with every service that it finds. It ends when it has none.
import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { VERSION } from '@berth/shared'
import { PROCESSES } from '../limits/machine.ts'
import { listFolder } from '../machine/files.ts'
import { takeSlot } from '../machine/process/slots.ts'
import type { AgentSettings } from '../settings.ts'
import { type Answer, type Request, supervisorPaths } from './client.ts'
import { readState } from './instructions.ts'
import { SupervisedService } from './service.ts'

interface Supervised {
  service: SupervisedService
  ended: Promise<void>
}

class Supervisor {
  readonly #settings: AgentSettings
  readonly #services = new Map<string, Promise<Supervised>>()
  readonly over = Promise.withResolvers<void>()
  #idle: NodeJS.Timeout | undefined

  constructor(settings: AgentSettings) {
    this.#settings = settings
  }

  /** Every service of this boot that has not ended. */
  async adoptAll(): Promise<void> {
    const root = join(this.#settings.runDir, 'services')
    for (const environment of listFolder(root)) {
      for (const name of listFolder(join(root, environment))) {
        const dir = join(root, environment, name)
        const state = readState(dir)
        // a process of an earlier version has its own supervisor until its next deployment
        const isOurs = state?.keeper !== undefined && state.condition !== 'ended'
        if (!isOurs) continue
        await this.#hold(dir, (service) => service.adopt()).catch((error: Error) =>
          console.error(`${dir}: ${error.message}`),
        )
      }
    }
    this.#rest()
  }

  async answer(request: Request): Promise<Answer> {
    switch (request.do) {
      case 'ping':
        return { ok: true, version: VERSION, pid: process.pid }
      case 'start':
        await this.#hold(request.dir, (service) => service.start())
        return { ok: true }
      case 'stop': {
        const held = await this.#services.get(request.dir)?.catch(() => undefined)
        await held?.service.stop()
        await held?.ended
        return { ok: true }
      }
      case 'end':
        this.over.resolve()
        return { ok: true }
    }
  }

  async releaseAll(): Promise<void> {
    for (const held of this.#services.values())
      (await held.catch(() => undefined))?.service.release()
  }

  /** Asked twice for one folder, it starts once. */
  async #hold(
    dir: string,
    begin: (service: SupervisedService) => Promise<{ ended: Promise<void> }>,
  ): Promise<void> {
    clearTimeout(this.#idle)
    const known = this.#services.get(dir)
    if (known) return void (await known)
    const held = (async (): Promise<Supervised> => {
      const service = new SupervisedService(dir, this.#settings)
      return { service, ...(await begin(service)) }
    })()
    this.#services.set(dir, held)
    const forget = (): void => {
      this.#services.delete(dir)
      this.#rest()
    }
    void held.then(({ ended }) => ended).then(forget, forget)
    await held
  }

  #rest(): void {
    clearTimeout(this.#idle)
    if (this.#services.size > 0) return
    this.#idle = setTimeout(() => this.over.resolve(), PROCESSES.supervisorIdleMs)
  }
}

/** Resolves when it is over; soon, if another one runs and goes on. */
export async function runSupervisor(settings: AgentSettings): Promise<void> {
  for (const signal of ['SIGHUP', 'SIGPIPE', 'SIGINT', 'SIGUSR2'] as const) {
    process.on(signal, () => undefined)
  }
  // long enough for one that leaves its services to this one to end
  const isSecond = AbortSignal.timeout(PROCESSES.supervisorTurnMs)
  const slot = { signal: isSecond, onPlace: () => undefined, slots: () => 1 }
  const giveBack = await takeSlot(settings, 'supervisor', slot).catch(() => undefined)
  if (!giveBack) return
  const paths = supervisorPaths(settings)
  mkdirSync(paths.dir, { recursive: true, mode: 0o700 })
  chmodSync(paths.dir, 0o700)
  const supervisor = new Supervisor(settings)
  process.on('SIGTERM', () => supervisor.over.resolve())
  await supervisor.adoptAll()
  rmSync(paths.socket, { force: true })
  const server = createServer((socket) => serve(supervisor, socket))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(paths.socket, resolve)
  })
  await supervisor.over.promise
  server.close()
  rmSync(paths.socket, { force: true })
  await supervisor.releaseAll()
  giveBack()
}

function serve(supervisor: Supervisor, socket: Socket): void {
  let text = ''
  socket.setEncoding('utf8')
  socket.on('error', () => undefined)
  socket.on('data', (chunk: string) => {
    text += chunk
    if (text.length > PROCESSES.requestChars) return socket.destroy()
    const end = text.indexOf('\n')
    if (end < 0) return
    const line = text.slice(0, end)
    text = ''
    const reply = (answer: Answer): void => void socket.end(`${JSON.stringify(answer)}\n`)
    new Promise<Answer>((resolve) => resolve(supervisor.answer(JSON.parse(line) as Request))).then(
      reply,
      (error: Error) => reply({ ok: false, message: error.message }),
    )
  })
}
