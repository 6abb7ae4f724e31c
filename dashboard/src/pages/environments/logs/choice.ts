// What the page of logs shows, in its address: ?log=requests&service=web&level=error,warn&status=5xx&q=timeout&until=… PURE.
import {
  LOG_LEVEL_FILTERS,
  type LogLevelFilter,
  STATUS_CLASSES,
  type StatusClass,
} from '@berth/shared/log-lines'

export interface LogChoice {
  log: 'services' | 'requests'
  /** Empty: all of them, as for everything else here. */
  service: string
  levels: LogLevelFilter[]
  statuses: StatusClass[]
  q: string
  /** The time around which lines are shown; empty: the latest. */
  until: string
}

export type LogSearch = Record<string, string>

const list = <T extends string>(text: unknown, all: readonly T[]): T[] => {
  const words = String(text ?? '').split(',')
  return all.filter((one) => words.includes(one))
}

export function readChoice(search: Record<string, unknown>): LogChoice {
  const until = new Date(String(search.until ?? ''))
  return {
    log: search.log === 'requests' ? 'requests' : 'services',
    service: String(search.service ?? '').slice(0, 64),
    levels: list(search.level, LOG_LEVEL_FILTERS),
    statuses: list(search.status, STATUS_CLASSES),
    q: String(search.q ?? '').slice(0, 200),
    until: Number.isNaN(until.getTime()) ? '' : until.toISOString(),
  }
}

export function writeChoice(choice: LogChoice): LogSearch {
  const { log, service, levels, statuses, q, until } = choice
  const all = {
    log: log === 'requests' ? log : '',
    service,
    level: log === 'services' ? levels.join(',') : '',
    status: log === 'requests' ? statuses.join(',') : '',
    q,
    until,
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''))
}
