import { expect, test } from 'vitest'
import { findJoinProblems, missingPlatforms } from './join-check.ts'

const GOOD = {
  baseUrl: 'https://berth.example.com',
  agentEndpoints: ['berth.example.com:7443'],
  hostname: 'fra-1.example.com',
  platforms: ['linux-x64', 'linux-arm64'],
}
const codes = (change: Partial<typeof GOOD>): string[] =>
  findJoinProblems({ ...GOOD, ...change }).map(({ code }) => code)

test('a complete installation has no problem', () => {
  expect(codes({})).toEqual([])
})

test.each([
  'http://127.0.0.1:8080',
  'http://localhost:8080',
  'https://[::1]:8080',
  'http://0.0.0.0:1',
])('another machine cannot reach %s', (baseUrl) => {
  expect(codes({ baseUrl, agentEndpoints: ['127.0.0.1:7443'] })).toEqual(['address_local'])
})

test.each(['127.0.0.1', 'localhost', 'box.localhost', '::1'])(
  'the same machine reaches a local address: %s',
  (hostname) => {
    const local = { baseUrl: 'http://127.0.0.1:8080', agentEndpoints: ['127.0.0.1:7443'] }
    expect(codes({ ...local, hostname })).toEqual([])
  },
)

test('plain http is refused beyond the own machine', () => {
  expect(codes({ baseUrl: 'http://berth.example.com' })).toEqual(['address_plain'])
})

test('agents need an address too', () => {
  expect(codes({ agentEndpoints: ['127.0.0.1:7443'] })).toEqual(['agent_address_local'])
  expect(codes({ agentEndpoints: ['127.0.0.1:7443', '[2001:db8::1]:7443'] })).toEqual([])
})

test('packages are named by what is missing', () => {
  expect(codes({ platforms: [] })).toEqual(['no_package'])
  expect(missingPlatforms(['linux-x64'])).toEqual(['arm64'])
  expect(missingPlatforms(GOOD.platforms)).toEqual([])
})
