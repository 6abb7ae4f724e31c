// Service logs that lie on this server, read in the order of time and, on wish, followed.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { AgentSettings } from '../settings.ts'
import { environmentPlaces } from './files.ts'

export interface ServiceRecord {
  t: string
  s: 'out' | 'err'
  service: string
  task: number
  text: string
}
export interface GoneRecord {
  kind: 'gone'
  service: string
  days: string
}

const list = (folder: string): string[] => {
  try {
    return readdirSync(folder).sort()
  } catch {
    return []
  }
}

export async function* readServiceLogs(
  settings: AgentSettings,
  o: {
    environmentId: number
    services: string[] | null
    since?: Date
    until?: Date
    tail?: number
    follow: boolean
    signal: AbortSignal
  },
): AsyncGenerator<ServiceRecord | GoneRecord> {
  const { logs } = environmentPlaces(settings, o.environmentId)
  let shown = 0
  const look = (): ServiceRecord[] => {
    const services = list(logs).filter((s) => o.services === null || o.services.includes(s))
    const records = services.flatMap((service) =>
      list(join(logs, service)).flatMap((day) =>
        readFileSync(join(logs, service, day), 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line) => ({ ...JSON.parse(line), service }) as ServiceRecord),
      ),
    )
    return records
      .filter(({ t }) => (!o.since || t >= o.since.toISOString()) && (!o.until || t < o.until.toISOString()))
      .sort((a, b) => (a.t < b.t ? -1 : 1))
  }
  const first = look()
  shown = first.length
  yield* o.tail === undefined ? first : first.slice(-o.tail)
  while (o.follow && !o.signal.aborted) {
    await delay(200, undefined, { signal: o.signal }).catch(() => undefined)
    const all = look()
    yield* all.slice(shown)
    shown = all.length
  }
}
