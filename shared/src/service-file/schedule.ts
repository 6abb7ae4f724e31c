// When an action runs by itself: five cron fields in a time zone. Checks them, and computes the moments with croner. A
// fixed time that daylight saving skips runs when the clock has jumped; one that it repeats runs the first time only.
import { Cron } from 'croner'
import { quoted } from './problem.ts'
import type { Schedule } from './service-file.ts'
import { suggest } from './suggestion.ts'
import type { Fault } from './vocabulary.ts'

const NAMES = 'jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat'
const VALUE = `(?:[0-9]{1,2}|${NAMES})`
const ITEM = `(?:\\*|${VALUE}(?:-${VALUE})?)(?:/[0-9]{1,2})?`
const FIELD = new RegExp(`^${ITEM}(?:,${ITEM})*$`, 'i')
const FIELDS = ['minute', 'hour', 'day of the month', 'month', 'day of the week'] as const

const NICKNAMES: Record<string, string> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
}

/** Any year before it is as good: whether a schedule ever happens does not depend on today. */
const SOME_DAY = Date.UTC(2024, 0, 1)

export function cronFault(value: string): Fault | undefined {
  const nickname = Object.hasOwn(NICKNAMES, value) ? NICKNAMES[value] : undefined
  if (nickname) {
    return { says: `must be five fields; ${value} is '${nickname}'`, suggestion: nickname }
  }
  const fields = value.split(' ')
  if (fields.length !== FIELDS.length) {
    const extra = fields.length === 6 ? '; seconds are not possible, the shortest is a minute' : ''
    const says = `must have five fields (minute hour day month weekday), has ${fields.length}${extra}`
    return { says }
  }
  const wrong = fields.findIndex((field) => !FIELD.test(field))
  if (wrong >= 0) {
    const says = `has a ${FIELDS[wrong]} that is not understood: ${quoted(fields[wrong] ?? '')}`
    return { says }
  }
  let next: number | null
  try {
    next = nextRun({ cron: value, timezone: 'UTC' }, SOME_DAY)
  } catch (error) {
    return { says: `is not understood: ${plain((error as Error).message)}` }
  }
  return next === null ? { says: `never happens: no month has such a day` } : undefined
}

/** Croner counts months from 0 and names its own class. */
const plain = (message: string): string => {
  const text = message.replace(/^CronPattern: /, '').replace(/^Syntax error, /, '')
  const month = /^Invalid value for month: (\d+)$/.exec(text)
  const said = month ? `invalid value for month: ${Number(month[1]) + 1}` : text
  return said.charAt(0).toLowerCase() + said.slice(1).replace(/\.$/, '')
}

const isZone = (name: string): boolean => {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== undefined
  } catch {
    return false
  }
}

const cityOf = (name: string): string => (name.split('/').at(-1) ?? '').toLowerCase()

export function timezoneFault(value: string): Fault | undefined {
  if (isZone(value)) return undefined
  const zones = ['UTC', ...Intl.supportedValuesOf('timeZone')]
  const city = cityOf(value.replaceAll(/[ -]/g, '_'))
  const suggestion = zones.find((zone) => cityOf(zone) === city) ?? suggest(value, zones)
  const hint = suggestion ? `did you mean '${suggestion}'?` : 'write one such as Europe/Berlin'
  const says = `is not a time zone: ${quoted(value)}; ${hint}`
  return suggestion ? { says, suggestion } : { says }
}

/** What is wrong with it here, in a sentence; a server may know other time zones. */
export function scheduleFault({ cron, timezone }: Schedule): string | undefined {
  const inCron = cronFault(cron)
  if (inCron) return `The schedule ${inCron.says}.`
  const inZone = timezoneFault(timezone)
  return inZone && `The schedule's time zone ${inZone.says}`
}

/** The first moment after `after`; null if there is none. */
export function nextRun(schedule: Schedule, after: number): number | null {
  return cronOf(schedule).nextRun(new Date(after))?.getTime() ?? null
}

/** The moments in `[from, to]`, oldest first, at most `most`. */
export function runsBetween(schedule: Schedule, from: number, to: number, most: number): number[] {
  const cron = cronOf(schedule)
  const found: number[] = []
  let at = cron.nextRun(new Date(from - 1))?.getTime()
  while (at !== undefined && at <= to && found.length < most) {
    found.push(at)
    at = cron.nextRun(new Date(at))?.getTime()
  }
  return found
}

const cronOf = ({ cron, timezone }: Schedule): Cron => new Cron(cron, { timezone, mode: '5-part' })
