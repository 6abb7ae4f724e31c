// How a ceiling is shared, and the message for a file that asks for more.
import { describe, expect, it } from 'vitest'
import { type Ask, type Ceiling, describeSize, shareOut } from './ceilings.ts'

const MiB = 1_024 ** 2
const GiB = 1_024 ** 3
const usual = { memoryBytes: 512 * MiB, cpus: 1, pids: 512 }
const most: Ceiling = {
  memoryBytes: 2 * GiB,
  cpus: 2,
  pids: 4_096,
  diskBytes: GiB,
  isCpuBound: true,
}
const ask = (name: string, memoryBytes: number | null = null, cpus: number | null = null): Ask => {
  return { name, memoryBytes, cpus }
}
const ADVICE = 'Ask for less in .service.yml, or let an administrator raise the limit.'
const message = (services: Ask[], ceiling: Ceiling = most): string => {
  const shares = shareOut(services, ceiling, usual, 'fra-1')
  return shares.ok ? '' : shares.message
}
const limits = (services: Ask[], ceiling: Ceiling = most) => {
  const shares = shareOut(services, ceiling, usual, 'fra-1')
  if (!shares.ok) throw new Error(shares.message)
  return Object.fromEntries(shares.limits)
}

describe('a service', () => {
  it('gets what it asks for, to the last byte', () => {
    const given = limits([ask('web', 2 * GiB, 2)])
    expect(given).toEqual({ web: { memoryBytes: 2 * GiB, cpus: 2, pids: 512 } })
  })

  it('with replicas asks once for each', () => {
    const three = { ...ask('web', 512 * MiB), count: 3 }
    expect(limits([three, ask('db')]).db).toMatchObject({ memoryBytes: 512 * MiB, cpus: 0.5 })
    expect(limits([{ ...ask('web'), count: 8 }]).web).toMatchObject({ memoryBytes: 256 * MiB })
    expect(message([{ ...three, memoryBytes: GiB }])).toBe(
      `web (3 replicas) asks for 3 GiB of memory; an environment of this project may use 2 GiB on fra-1. ${ADVICE}`,
    )
  })

  it('that asks for nothing gets the usual, or its part of what is left', () => {
    expect(limits([ask('web'), ask('db')]).db).toEqual(usual)
    const given = limits([ask('web', 1.5 * GiB, 1.5), ask('db'), ask('queue')])
    expect(given.web).toMatchObject({ memoryBytes: 1.5 * GiB, cpus: 1.5 })
    expect(given.db).toEqual({ memoryBytes: 256 * MiB, cpus: 0.25, pids: 512 })
    expect(given.queue).toEqual(given.db)
  })

  it('never gets more than all services may have together', () => {
    for (const count of [1, 3, 7, 20]) {
      const services = Array.from({ length: count }, (_, index) => ask(`s${index}`))
      const given = Object.values(limits(services, { ...most, pids: 600 }))
      const total = (key: 'memoryBytes' | 'cpus' | 'pids'): number =>
        given.reduce((sum, one) => sum + one[key], 0)
      expect(total('memoryBytes')).toBeLessThanOrEqual(2 * GiB)
      expect(total('cpus')).toBeLessThanOrEqual(2.000001)
      expect(total('pids')).toBeLessThanOrEqual(600)
    }
  })

  it('shares the processors of the server as the machine lets it where nobody bounds them', () => {
    const free = { ...most, isCpuBound: false }
    const services = ['a', 'b', 'c', 'd'].map((name) => ask(name))
    expect(Object.values(limits(services, free)).map(({ cpus }) => cpus)).toEqual([1, 1, 1, 1])
    expect(limits([ask('a', null, 2), ask('b', null, 2)], free).b?.cpus).toBe(2)
    expect(message([ask('a', null, 2.5)], free)).toBe(
      `a asks for 2.5 processors; an environment of this project may use 2 processors on fra-1. ${ADVICE}`,
    )
  })
})

describe('a file that asks for more', () => {
  it.each<[string, Ask[], string]>([
    [
      'memory',
      [ask('web', 4 * GiB)],
      'web asks for 4 GiB of memory; an environment of this project may use 2 GiB on fra-1.',
    ],
    [
      'memory, by one byte',
      [ask('web', 2 * GiB + 1)],
      'web asks for 2 GiB of memory; an environment of this project may use 2 GiB on fra-1.',
    ],
    [
      'memory in sum',
      [ask('web', GiB), ask('api', GiB), ask('db', 512 * MiB)],
      'web, api and db together ask for 2.5 GiB of memory; an environment of this project may use 2 GiB on fra-1.',
    ],
    [
      'memory, so that nothing is left',
      [ask('web', 2 * GiB), ask('db'), ask('queue')],
      'web asks for 2 GiB, which leaves 0 MiB of memory for each of db and queue; an environment of this project may use 2 GiB on fra-1.',
    ],
    [
      'processors',
      [ask('web', null, 4)],
      'web asks for 4 processors; an environment of this project may use 2 processors on fra-1.',
    ],
    [
      'processors in sum',
      [ask('web', null, 1.5), ask('api', null, 1.5)],
      'web and api together ask for 3 processors; an environment of this project may use 2 processors on fra-1.',
    ],
    [
      'processors, so that none is left',
      [ask('web', null, 2), ask('api')],
      'web asks for 2 processors, which leaves none for the other services; an environment of this project may use 2 processors on fra-1.',
    ],
  ])('of %s is refused', (_what, services, text) => {
    expect(message(services)).toBe(`${text} ${ADVICE}`)
  })

  it('is told when there are simply too many services', () => {
    const services = Array.from({ length: 3 }, (_, index) => ask(`s${index}`))
    expect(message(services, { ...most, memoryBytes: 64 * MiB })).toBe(
      `There is 21 MiB of memory for each of s0, s1 and s2; an environment of this project may use 64 MiB on fra-1. ${ADVICE}`,
    )
  })
})

it('names sizes as people do', () => {
  expect([512 * MiB, GiB, 1.25 * GiB, 12 * GiB].map(describeSize)).toEqual([
    '512 MiB',
    '1 GiB',
    '1.3 GiB',
    '12 GiB',
  ])
})
