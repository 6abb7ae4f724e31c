// Follows the log of every container of ours, so that its lines outlive it. Finds containers by the engine's events and
// by a check every minute; reopens a broken stream where the file ends. Invariants: a bounded number of streams
// (further containers are read in turn); one follower per container; a problem with one log affects no other.
import { setTimeout as delay } from 'node:timers/promises'
import { SERVICE_LOGS } from '@berth/shared'
import type { Ledger } from '../journal/ledger.ts'
import { describeError, type Log } from '../log.ts'
import { listOwnedContainers, type OwnedContainer } from '../machine/docker/containers.ts'
import type { Engine } from '../machine/docker/engine.ts'
import { EngineError } from '../machine/docker/engine-error.ts'
import { LABELS } from '../machine/docker/names.ts'
import type { AgentSettings } from '../settings.ts'
import { claimLog } from './claims.ts'
import { drainContainerLog, followContainer, type LoggedContainer } from './drain.ts'

interface FollowerParts {
  engine: Engine
  settings: AgentSettings
  log: Log
  /** Undefined when nothing was ever deployed here. */
  ledger: () => Ledger | undefined
}

type Followed = LoggedContainer & { id: string; name: string; madeAt: Date }

/** The output of release commands goes to the log of their deployment. */
const isService = ({ name }: OwnedContainer): boolean => !name.endsWith('-release')

export class LogFollowers {
  readonly #p: FollowerParts
  readonly #ending = new AbortController()
  /** By container. */
  readonly #following = new Map<string, Promise<void>>()
  /** Ended containers whose log was read completely, by container. */
  readonly #done = new Set<string>()
  #looking: Promise<void> | undefined
  #lookAgain = false
  #timer: NodeJS.Timeout | undefined

  constructor(parts: FollowerParts) {
    this.#p = parts
  }

  close(): void {
    this.#ending.abort()
    clearTimeout(this.#timer)
  }

  /** Called when a container or the engine started; concurrent calls share one check. */
  noteStart(containerId?: string): void {
    if (containerId !== undefined) this.#done.delete(containerId)
    if (this.#looking) {
      this.#lookAgain = true
      return
    }
    this.#looking = this.#look().finally(() => {
      this.#looking = undefined
      if (this.#lookAgain && !this.#ending.signal.aborted) {
        this.#lookAgain = false
        this.noteStart()
      }
    })
  }

  async #look(): Promise<void> {
    const { engine, settings, log } = this.#p
    try {
      const found = (await listOwnedContainers(engine, settings)).filter(isService)
      const known = new Set(found.map(({ id }) => id))
      for (const id of this.#done) if (!known.has(id)) this.#done.delete(id)
      const beyond: Followed[] = []
      for (const container of found) {
        if (this.#ending.signal.aborted) return
        const { id, state } = container
        const isUp = state === 'running' || state === 'restarting'
        if (this.#following.has(id) || state === 'created') continue
        if (this.#done.has(id) && !isUp) continue
        const followed = this.#describe(container)
        if (!followed) continue
        if (this.#following.size < SERVICE_LOGS.followers) this.#follow(followed)
        else beyond.push(followed)
      }
      if (beyond.length > 0) await this.#readInTurn(beyond)
    } catch (error) {
      if (!this.#ending.signal.aborted) log.debug(describeError(error), 'logs were not looked for')
    }
  }

  #describe({ id, name, madeAt, labels }: OwnedContainer): Followed | undefined {
    const environmentId = Number(labels[LABELS.environment])
    const taskId = Number(labels[LABELS.task])
    const service = labels[LABELS.service] ?? ''
    const isOurs = Number.isSafeInteger(environmentId) && Number.isSafeInteger(taskId)
    if (!isOurs || !/^[a-z0-9][a-z0-9_-]*$/.test(service)) return undefined
    const rows = this.#p.ledger()?.objects.list({ environmentId, kind: 'container', taskId })
    const row = rows?.find((found) => found.name === name)
    const facts = row?.facts ?? { replica: Number(labels[LABELS.replica] ?? 1) }
    return { id, name, madeAt, environmentId, taskId, service, facts }
  }

  #follow(of: Followed): void {
    const following = this.#keepFollowing(of).finally(() => {
      this.#following.delete(of.id)
      this.#lookLater(SERVICE_LOGS.againMs) // it may run again by now
    })
    this.#following.set(of.id, following)
  }

  /** Until the container has ended and all its lines are written, or it is removed. */
  async #keepFollowing(of: Followed): Promise<void> {
    const { engine, settings, log } = this.#p
    const { signal } = this.#ending
    for (let waitMs: number = SERVICE_LOGS.againMs; !signal.aborted; ) {
      const release = claimLog(settings, { ...of, replica: Number(of.facts?.replica ?? 1) })
      try {
        if (release) {
          await followContainer(engine, settings, of, signal)
          if (!signal.aborted) this.#done.add(of.id)
          return
        }
      } catch (error) {
        const isGone = error instanceof EngineError && error.kind === 'not_found'
        if (isGone || signal.aborted) return
        const { name: container } = of
        log.debug({ container, ...describeError(error) }, 'a log is followed again')
      } finally {
        release?.()
      }
      await delay(waitMs, undefined, { signal, ref: false }).catch(() => undefined)
      if (release) waitMs = Math.min(2 * waitMs, SERVICE_LOGS.againCapMs)
      else if (!(await this.#isThere(of))) return
    }
  }

  async #isThere({ id, environmentId }: Followed): Promise<boolean> {
    const { engine, settings } = this.#p
    const found = await listOwnedContainers(engine, settings, environmentId).catch(() => [])
    return found.some((container) => container.id === id)
  }

  async #readInTurn(beyond: Followed[]): Promise<void> {
    const { engine, settings, log } = this.#p
    for (const of of beyond) {
      if (this.#ending.signal.aborted) return
      await drainContainerLog(engine, settings, of, of).catch((error: unknown) =>
        log.debug({ container: of.name, ...describeError(error) }, 'a log could not be read'),
      )
    }
    this.#lookLater(SERVICE_LOGS.pollMs)
  }

  #lookLater(ms: number): void {
    if (this.#ending.signal.aborted) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.noteStart(), ms)
    this.#timer.unref()
  }
}
