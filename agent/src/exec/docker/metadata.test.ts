// The rule in a network namespace of its own: the machine's firewall is not touched.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { locateProgram } from '../programs.ts'

const isRoot = process.getuid?.() === 0
const MODULE = join(import.meta.dirname, 'metadata.ts')

describe.skipIf(!isRoot || !locateProgram('iptables') || !locateProgram('ip'))('the rule', () => {
  const name = `bt${randomBytes(3).toString('hex')}`
  const inside = (...argv: string[]): string =>
    execFileSync('ip', ['netns', 'exec', name, ...argv], { encoding: 'utf8' })
  const drop = (): string => {
    const source = `import(process.argv[1]).then(async (m) => console.log(await m.dropMetadata()))`
    return inside(process.execPath, '-e', source, MODULE).trim()
  }
  beforeEach(() => void execFileSync('ip', ['netns', 'add', name]))
  afterEach(() => void execFileSync('ip', ['netns', 'del', name]))

  it('is made once, first in the chain, and stays one', () => {
    inside('iptables', '-N', 'DOCKER-USER')
    inside('iptables', '-A', 'DOCKER-USER', '-j', 'RETURN')
    expect(drop()).toBe('made')
    expect(drop()).toBe('there')
    expect(inside('iptables', '-S', 'DOCKER-USER').trim().split('\n')).toEqual([
      '-N DOCKER-USER',
      '-A DOCKER-USER -d 169.254.169.254/32 -j DROP',
      '-A DOCKER-USER -j RETURN',
    ])
  })

  it('makes no chain where the engine has none', () => {
    expect(drop()).toBe('no_chain')
    expect(inside('iptables', '-S')).not.toContain('DOCKER-USER')
  })
})
