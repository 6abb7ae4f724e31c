import { describe, expect, it } from 'vitest'
import {
  describeMemoryStop,
  describeSlowBuild,
  lowestLimit,
  type MemoryLimit,
} from './build-limits.ts'

const GiB = 1_024 ** 3
const MiB = 1_024 ** 2

it('the lowest limit counts, with the one who sets it', () => {
  expect(lowestLimit({ server: 4 * GiB, environment: 6 * GiB })).toEqual({
    bytes: 4 * GiB,
    setBy: 'server',
  })
  expect(lowestLimit({ server: 4 * GiB, environment: GiB })).toMatchObject({ setBy: 'environment' })
  expect(lowestLimit({ server: GiB, environment: GiB })).toMatchObject({ setBy: 'server' })
})

describe('a build that the kernel stopped', () => {
  const say = (limit: MemoryLimit, cause: 'limit' | 'server' = 'limit', serverBytes = 16 * GiB) =>
    describeMemoryStop({ what: '`RUN npm ci`', cause, limit, server: 'fra-1', serverBytes })

  it('names the limit of the server, and how to raise it', () => {
    expect(say({ bytes: 4 * GiB, setBy: 'server' })).toBe(
      '`RUN npm ci` needed more than 4 GiB, the build limit of server fra-1. An administrator can raise it under Servers › fra-1 › Builds and slots, or with `berth server set fra-1 --build-memory 8g`.',
    )
  })

  it.each([
    [4.5 * GiB, 16 * GiB, '9g'],
    [300 * MiB, 16 * GiB, '600m'],
    [12 * GiB, 15.6 * GiB, '15g'],
    [600 * MiB, 900 * MiB, '900m'],
  ])('of %d on a server with %d is advised %s', (bytes, serverBytes, advised) => {
    expect(say({ bytes, setBy: 'server' }, 'limit', serverBytes)).toContain(
      `--build-memory ${advised}\``,
    )
  })

  it('on a server that has no more asks for more memory', () => {
    expect(say({ bytes: 4 * GiB, setBy: 'server' }, 'limit', 4 * GiB)).toMatch(
      /The server has 4 GiB in all: give it more memory, or let the build use less\.$/,
    )
  })

  it('names the limit of an environment and of a fork', () => {
    expect(say({ bytes: 512 * MiB, setBy: 'environment' })).toContain(
      'needed more than 512 MiB, which an environment of this project may use on server fra-1.',
    )
    expect(say({ bytes: GiB, setBy: 'fork' })).toContain('the limit for code from a fork')
  })

  it('says so when it was the server that had no memory left', () => {
    expect(say({ bytes: 4 * GiB, setBy: 'server' }, 'server')).toMatch(
      /^Server fra-1 ran out of memory while `RUN npm ci` ran, and the kernel ended it below its limit of 4 GiB/,
    )
  })
})

it('a slow build names the time, and how to raise it', () => {
  expect(describeSlowBuild('Step build:web', 30, 'fra-1')).toBe(
    'Step build:web took longer than 30 min, the time limit for builds on server fra-1. An administrator can raise it under Servers › fra-1 › Builds and slots, or with `berth server set fra-1 --build-timeout 60m`.',
  )
})
