// The text of the rules, and that a real kernel accepts them, in a network namespace apart from the machine's firewall.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { METADATA_ADDRESSES } from '@berth/shared'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ownerOf } from '../../../../test/fixtures/server/packet-rules.ts'
import { locateProgram } from '../process/programs.ts'
import { CHAIN, chainsOf, type FirewallFacts, renderRemoval, renderRules } from './rules.ts'

const FACTS: FirewallFacts = {
  stateDir: '/var/lib/berth',
  ports: [
    { port: 20_000, uid: 1_001 },
    { port: 3_000, uid: 1_002 },
  ],
  caddyUid: 998,
  edge: { dnsPort: 15_353, pagePort: 41_000 },
  accounts: [1_001, 1_002],
  pool: '10.214.0.0/16',
  networks: ['10.214.0.0/26', '10.214.0.64/26'],
  engineGroup: undefined,
}
const NONE = { filter: '', mangle: '' }
const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '')

describe('rules', () => {
  it('fit the names that iptables takes, another set for each installation', () => {
    const all = [...chainsOf('/var/lib/berth', 'filter'), ...chainsOf('/var/lib/berth', 'mangle')]
    for (const name of all) expect(name).toMatch(CHAIN)
    expect(new Set([...all, ...chainsOf('/other', 'filter')]).size).toBe(all.length + 7)
  })

  it('let one account answer on a port', () => {
    const text = renderRules(FACTS, 4, NONE)
    const [, answers] = chainsOf(FACTS.stateDir, 'filter')
    for (const { port, uid } of [...FACTS.ports, { port: 41_000, uid: 0 }]) {
      const rule = `-A ${answers} -p tcp --sport ${port} -m owner ! --uid-owner ${uid} -j DROP`
      expect(linesOf(text)).toContain(rule)
    }
    // root and the proxy may connect, but not answer
    expect(text.indexOf('-g ')).toBeLessThan(text.indexOf('--uid-owner 998 -j RETURN'))
  })

  it('name every metadata address, for accounts and for what is forwarded', () => {
    for (const [family, addresses] of [
      [4, METADATA_ADDRESSES.v4],
      [6, METADATA_ADDRESSES.v6],
    ] as const) {
      const text = renderRules(FACTS, family, NONE)
      for (const address of addresses) {
        expect(text.split(`-d ${address} `)).toHaveLength(5) // once for accounts, three times for forwarded packets
      }
    }
  })

  it('follow connections only where there are networks of containers', () => {
    expect(renderRules(FACTS, 4, NONE)).toContain('conntrack')
    expect(renderRules({ ...FACTS, networks: [] }, 4, NONE)).not.toContain('conntrack')
    expect(renderRules(FACTS, 6, NONE)).not.toContain('10.214')
  })
})

const isPossible = process.getuid?.() === 0 && locateProgram('iptables') && locateProgram('ip')
describe.skipIf(!isPossible)('in a kernel', () => {
  const name = `bt${randomBytes(3).toString('hex')}`
  const inside = (argv: string[], input = ''): string =>
    execFileSync('ip', ['netns', 'exec', name, ...argv], { encoding: 'utf8', input })
  const PROGRAMS = { 4: 'iptables', 6: 'ip6tables' } as const
  const save = (family: 4 | 6) => ({
    filter: inside([`${PROGRAMS[family]}-save`, '-t', 'filter']),
    mangle: inside([`${PROGRAMS[family]}-save`, '-t', 'mangle']),
  })
  const restore = (family: 4 | 6, text: string): void =>
    void inside([`${PROGRAMS[family]}-restore`, '--noflush'], text)
  const apply = (family: 4 | 6, facts = FACTS): void =>
    restore(family, renderRules(facts, family, save(family)))
  beforeEach(() => void execFileSync('ip', ['netns', 'add', name]))
  afterEach(() => void execFileSync('ip', ['netns', 'del', name]))

  it.each([4, 6] as const)(
    'IPv%i: set twice they are there once, and go without a trace',
    (family) => {
      const before = linesOf(save(family).filter).filter((line) => line.startsWith('-'))
      apply(family)
      const once = save(family)
      apply(family)
      const rules = (text: string): string[] => linesOf(text).filter((line) => line.startsWith('-'))
      expect(rules(save(family).filter)).toEqual(rules(once.filter))
      expect(rules(save(family).mangle)).toEqual(rules(once.mangle))
      expect(linesOf(once.filter).map(ownerOf)).toContain('/var/lib/berth')
      restore(family, renderRemoval(FACTS.stateDir, once) ?? '')
      expect(linesOf(save(family).filter).filter((line) => line.startsWith('-'))).toEqual(before)
      expect(save(family).mangle).not.toContain('BERTH')
      expect(renderRemoval(FACTS.stateDir, save(family))).toBeUndefined()
    },
  )

  it('come before rules that others put first, and beside those of another installation', () => {
    apply(4)
    apply(4, { ...FACTS, stateDir: '/srv/second' })
    inside(['iptables', '-I', 'OUTPUT', '-o', 'lo', '-j', 'ACCEPT'])
    apply(4)
    apply(4, { ...FACTS, stateDir: '/srv/second' })
    const rules = linesOf(save(4).filter).filter((line) => line.startsWith('-A OUTPUT'))
    expect(rules.map(ownerOf)).toEqual(['/srv/second', '/var/lib/berth', undefined])
    restore(4, renderRemoval('/srv/second', save(4)) ?? '')
    expect(linesOf(save(4).filter).flatMap((rule) => ownerOf(rule) ?? [])).toEqual([
      '/var/lib/berth',
      '/var/lib/berth',
    ])
  })

  it('come back where somebody emptied a chain or the whole table', () => {
    apply(4)
    const rules = (): string[] => linesOf(save(4).filter).filter((line) => line.startsWith('-A'))
    const whole = rules()
    inside(['iptables', '-F', chainsOf(FACTS.stateDir, 'filter')[1] as string])
    apply(4)
    expect(rules()).toEqual(whole)
    inside(['iptables', '-F'])
    inside(['iptables', '-X'])
    apply(4)
    expect(rules()).toEqual(whole)
  })
})
