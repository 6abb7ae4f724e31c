// Limits how many builds and pulls (and supervisors: one) a server runs concurrently, across processes. Two kinds of
// small files in runDir/slots, each named after its process: `wait` is a place in line, `hold` a slot. Invariants: a
// caller enters only if, after it made its `hold`, it sees no more of them than slots, so the last of too many always
// backs off; every reader ignores and removes the file of a dead process.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SLOTS } from '../../limits/machine.ts'
import type { AgentSettings } from '../../settings.ts'
import { isSameProcess, readBootId, readStartTicks } from './processes.ts'

export type SlotKind = 'build' | 'pull' | 'supervisor'

interface SlotOptions {
  signal: AbortSignal
  /** Called when it has to wait, and at each change; 1 is next. */
  onPlace: (place: number) => void
  /** How many slots there are; asked at each check, because people change it. */
  slots: () => number
}

const slotFolder = ({ runDir }: Pick<AgentSettings, 'runDir'>): string => join(runDir, 'slots')

type Stage = 'wait' | 'hold'

interface Entry {
  file: string
  stage: Stage
  /** Monotonic, and comparable across the processes of one boot. */
  since: string
  id: string
  /** `pid:ticks`. */
  process: string
}

const NAME =
  /^(build|pull|supervisor)-(wait|hold)-([0-9]{20})-([0-9]+)-([0-9]+)-([0-9a-f]+)-([0-9a-f]+)$/

const bootMark = (): string => readBootId().replaceAll('-', '').slice(0, 12)

/** Entries of living processes, oldest first. */
function readLine(folder: string, kind: SlotKind): Entry[] {
  const boot = bootMark()
  const entries: Entry[] = []
  for (const file of readdirSync(folder)) {
    const [, of, stage, since = '', pid, ticks = '', madeIn, id = ''] = NAME.exec(file) ?? []
    if (of !== kind) continue
    if (madeIn === boot && isSameProcess(Number(pid), ticks)) {
      entries.push({ file, stage: stage as Stage, since, id, process: `${pid}:${ticks}` })
    } else {
      rmSync(join(folder, file), { force: true })
    }
  }
  return entries.sort((a, b) => (a.since + a.id < b.since + b.id ? -1 : 1))
}

/** Living processes that hold a slot or wait for one, as `pid:ticks`. */
export function listSlotProcesses(
  settings: Pick<AgentSettings, 'runDir'>,
  kind: SlotKind,
): Set<string> {
  const folder = slotFolder(settings)
  if (!existsSync(folder)) return new Set()
  return new Set(readLine(folder, kind).map(({ process }) => process))
}

/**
 * Resolves when a slot is free and this caller is next in line. The returned function releases the slot and is
 * idempotent; the exit of the process releases it too. Rejects with the signal's reason.
 */
export async function takeSlot(
  settings: Pick<AgentSettings, 'runDir'>,
  kind: SlotKind,
  options: SlotOptions,
): Promise<() => void> {
  const { signal, onPlace } = options
  signal.throwIfAborted()
  const folder = slotFolder(settings)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const since = String(process.hrtime.bigint()).padStart(20, '0')
  const ticks = readStartTicks(process.pid) ?? ''
  const id = randomBytes(6).toString('hex')
  const fileOf = (stage: Stage): string =>
    join(folder, `${kind}-${stage}-${since}-${process.pid}-${ticks}-${bootMark()}-${id}`)
  const [waiting, holding] = [fileOf('wait'), fileOf('hold')]
  const release = (): void => rmSync(holding, { force: true })
  writeFileSync(waiting, '', { mode: 0o600 })
  try {
    for (let reported = 0; ; ) {
      const slots = options.slots()
      const place = findPlace(readLine(folder, kind), id, slots)
      if (place <= 0) {
        writeFileSync(holding, '', { mode: 0o600 })
        const holders = readLine(folder, kind).filter(({ stage }) => stage === 'hold')
        if (holders.length <= slots) return release
        release()
      } else if (place !== reported) {
        reported = place
        onPlace(place)
      }
      // jitter: of several callers that backed off, one retries first
      await delay(SLOTS.pollMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() =>
        signal.throwIfAborted(),
      )
    }
  } catch (error) {
    release()
    throw error
  } finally {
    rmSync(waiting, { force: true })
  }
}

/** 0 or less when a slot is free. */
function findPlace(line: Entry[], id: string, slots: number): number {
  const held = line.filter(({ stage }) => stage === 'hold').length
  const waiting = line.filter(({ stage }) => stage === 'wait')
  const free = Math.max(0, slots - held)
  return waiting.findIndex((entry) => entry.id === id) + 1 - free
}
