// Agents of several tests set packet rules on one machine at once. So that none ever stands in another's way: ranges of ports
// are claimed (a file that names the process, forgotten when it is gone), ports that some agent guards are not chosen,
// and rules of installations whose folder is gone are swept.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { removeRules } from '../agent/src/exec/firewall/apply.ts'
import { ownerOf } from '../agent/src/exec/firewall/rules.ts'
import { isSameProcess, readStartTicks } from '../agent/src/exec/processes.ts'
import type { PortRange } from '../agent/src/settings.ts'

const CLAIMS = '/tmp/berth-test-ports' // the same for every run on this machine
const FROM = 20_000
const SIZE = 50
const RANGES = 200

const isRoot = process.getuid?.() === 0

const save = (program: 'iptables-save' | 'ip6tables-save'): string => {
  if (!isRoot) return ''
  try {
    return execFileSync(program, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return '' // not installed: nobody has rules
  }
}

/** Ports on which some account alone may answer. */
export const listGuardedPorts = (): Set<number> =>
  new Set(
    [...save('iptables-save').matchAll(/^-A BERTH-\S+ .*--[ds]port (\d+)/gm)].map((m) =>
      Number(m[1]),
    ),
  )

function isTaken(file: string): boolean {
  try {
    const [pid = '', ticks = ''] = readFileSync(file, 'utf8').split(' ')
    return isSameProcess(Number(pid), ticks)
  } catch {
    return false
  }
}

function claim(index: number): string | undefined {
  const file = join(CLAIMS, String(index))
  if (isTaken(file)) return undefined
  rmSync(file, { force: true })
  try {
    writeFileSync(file, `${process.pid} ${readStartTicks(process.pid)}`, { flag: 'wx' })
    return file
  } catch {
    return undefined
  }
}

/** Ports of one agent's own, until they are given back or this process ends. */
export function takePortRange(): PortRange & { giveBack: () => void } {
  mkdirSync(CLAIMS, { recursive: true, mode: 0o777 })
  const guarded = listGuardedPorts()
  for (let n = 0; n < RANGES; n += 1) {
    const index = (process.pid + n) % RANGES
    const range = { from: FROM + index * SIZE, to: FROM + index * SIZE + SIZE - 1 }
    if ([...guarded].some((port) => port >= range.from && port <= range.to)) continue
    const file = claim(index)
    if (file) return { ...range, giveBack: () => rmSync(file, { force: true }) }
  }
  throw new Error('no range of ports is free')
}

/** What a run that was killed left behind. */
export async function sweepRules(): Promise<void> {
  const rules = `${save('iptables-save')}\n${save('ip6tables-save')}`.split('\n')
  const owners = new Set(rules.flatMap((rule) => ownerOf(rule) ?? []))
  for (const stateDir of owners) if (!existsSync(stateDir)) await removeRules(stateDir)
}
