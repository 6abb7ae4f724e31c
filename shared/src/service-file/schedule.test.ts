// Moments of a schedule: fields, time zones, both changes of daylight saving; and what is said about wrong ones.
import { describe, expect, it } from 'vitest'
import { nextRun, readServiceFile, runsBetween, scheduleFault } from './index.ts'

const BERLIN = 'Europe/Berlin'
const between = (cron: string, timezone: string, from: string, to: string): string[] =>
  runsBetween({ cron, timezone }, Date.parse(from), Date.parse(to), 100).map((at) =>
    new Date(at).toISOString().slice(0, 16),
  )

describe('the moments of a schedule', () => {
  it('are those of its time zone', () => {
    const day = ['2026-01-10T00:00Z', '2026-01-11T00:00Z'] as const
    expect(between('0 3 * * *', 'UTC', ...day)).toEqual(['2026-01-10T03:00'])
    expect(between('0 3 * * *', BERLIN, ...day)).toEqual(['2026-01-10T02:00'])
    expect(between('0 3 * * *', 'America/New_York', ...day)).toEqual(['2026-01-10T08:00'])
  })

  it('include both ends and stop at the most', () => {
    const day = ['2026-01-10T03:00Z', '2026-01-11T03:00Z'] as const
    expect(between('0 3 * * *', 'UTC', ...day)).toEqual(['2026-01-10T03:00', '2026-01-11T03:00'])
    const minutes = { cron: '* * * * *', timezone: 'UTC' }
    expect(runsBetween(minutes, 0, Date.parse('2026-01-01T00:00Z'), 7)).toHaveLength(7)
  })

  it('a time that does not exist runs once, when the clock has jumped', () => {
    // On 29 March 2026 the clock in Berlin goes from 02:00 to 03:00, which is 01:00 UTC.
    expect(between('30 2 * * *', BERLIN, '2026-03-28T12:00Z', '2026-03-30T12:00Z')).toEqual([
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ])
  })

  it('a time that exists twice runs once', () => {
    // On 25 October 2026 the clock in Berlin goes from 03:00 back to 02:00, which is 01:00 UTC.
    expect(between('30 2 * * *', BERLIN, '2026-10-24T12:00Z', '2026-10-26T12:00Z')).toEqual([
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ])
  })

  it('an interval goes on through both changes', () => {
    const spring = between('*/30 * * * *', BERLIN, '2026-03-29T00:00Z', '2026-03-29T03:00Z')
    const autumn = between('*/30 * * * *', BERLIN, '2026-10-25T00:00Z', '2026-10-25T03:00Z')
    expect(spring).toHaveLength(7)
    expect(autumn).toHaveLength(7)
  })

  it('a leap day is found years ahead', () => {
    const next = nextRun({ cron: '0 0 29 2 *', timezone: 'UTC' }, Date.parse('2026-03-01T00:00Z'))
    expect(next).toBe(Date.parse('2028-02-29T00:00Z'))
  })
})

const problemOf = (schedule: string): string | undefined =>
  readServiceFile(`manual: { deploy: [x] }\nactions: { a: { run: x, schedule: ${schedule} } }`)
    .problems[0]?.message

describe('what is said about a wrong schedule', () => {
  it.each([
    [`"0 3 * *"`, 'must have five fields (minute hour day month weekday), has 4'],
    [`"*/5 0 3 * * *"`, 'seconds are not possible, the shortest is a minute'],
    [`"@daily"`, "@daily is '0 0 * * *'"],
    [`"0 25 * * *"`, 'invalid value for hour: 25'],
    [`"0 0 1 13 *"`, 'invalid value for month: 13'],
    [`"0 0 31 2 *"`, 'never happens'],
    [`"0 0 L * *"`, 'has a day of the month that is not understood: "L"'],
    [`"5-1 * * * *"`, 'from value is larger than to value'],
    [`"*/0 * * * *"`, 'illegal stepping'],
    [`{ timezone: UTC }`, "needs 'cron'"],
    [`{ cron: "0 3 * * *", timezone: Europe/Berln }`, "did you mean 'Europe/Berlin'?"],
    [`{ cron: "0 3 * * *", timezone: berlin }`, 'is not a time zone'],
    [`{ cron: "0 3 * * *", timezone: Berlin }`, "did you mean 'Europe/Berlin'?"],
    [`{ cron: "0 3 * * *", timezone: Zqxw }`, 'write one such as Europe/Berlin'],
    [`{ cron: "0 3 * * *", timezone: "+01:00" }`, 'must be a time zone such as Europe/Berlin'],
    [`5`, "must be five cron fields such as '0 3 * * *', or a map with cron, timezone"],
  ])('%s', (schedule, said) => expect(problemOf(schedule)).toContain(said))

  it('right ones have no problem and a default zone', () => {
    const source = `manual: { deploy: [x] }
actions:
  a: { run: x, schedule: "0 3 * * *" }
  b: { run: x, schedule: { cron: "*/5 * * JAN-MAR MON,7", timezone: America/New_York } }
  c: { run: x }`
    const { file, problems } = readServiceFile(source)
    expect(problems).toEqual([])
    expect(file?.actions.map(({ schedule }) => schedule)).toEqual([
      { cron: '0 3 * * *', timezone: 'UTC' },
      { cron: '*/5 * * JAN-MAR MON,7', timezone: 'America/New_York' },
      null,
    ])
  })

  it('a control plane tells why it cannot follow one', () => {
    expect(scheduleFault({ cron: '0 3 * * *', timezone: 'UTC' })).toBeUndefined()
    expect(scheduleFault({ cron: 'x', timezone: 'UTC' })).toMatch(/^The schedule must have five/)
    expect(scheduleFault({ cron: '0 3 * * *', timezone: 'Mars/Base' })).toMatch(/time zone/)
  })
})
