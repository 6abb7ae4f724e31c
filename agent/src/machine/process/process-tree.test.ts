// Trees that resist: ignored signals, double fork, new session, cleared environment. One test for each mechanism that a
// machine may offer, as far as this machine has it.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Cgroup, type CgroupHost, detectCgroups } from './cgroups.ts'
import { confineCommand } from './confinement.ts'
import {
  endTree,
  killTree,
  listTree,
  memberKey,
  type ProcessTree,
  signalGroup,
} from './process-tree.ts'
import { readProcess } from './processes.ts'
import { SYSTEM_PATH } from './programs.ts'

const host = detectCgroups()
const MEANS: [string, CgroupHost | undefined][] = [
  ['cgroup version 2', host.unified ? { unified: host.unified } : undefined],
  ['freezer of version 1', host.freezer ? { freezer: host.freezer } : undefined],
  ['pids of version 1', host.pids ? { pids: host.pids } : undefined],
  ['no cgroup', {}],
]

// 4 processes: the shell, a child, a daemon (double fork, own session) and its child
const STUBBORN = `
trap '' INT TERM HUP
( setsid /bin/sh -c 'trap "" INT TERM HUP; while :; do sleep 0.2; done & while :; do sleep 0.2; done' & )
( trap '' INT TERM HUP; while :; do sleep 0.2; done ) &
echo ready
while :; do sleep 0.2; done
`

async function until(look: () => boolean): Promise<void> {
  const end = performance.now() + 20_000
  while (!look()) {
    if (performance.now() > end) throw new Error('waited in vain')
    await delay(20)
  }
}

async function plant(script: string, means: CgroupHost): Promise<ProcessTree> {
  const name = `bt${randomBytes(4).toString('hex')}`
  const cgroup = Object.keys(means).length > 0 ? Cgroup.create(means, name) : undefined
  const argv = confineCommand(script, {
    account: undefined,
    cgroupFiles: cgroup?.joinFiles() ?? [],
    directory: '/',
    variablesFile: '/dev/null',
    additions: {},
    hasTerminal: false,
  })
  const child = spawn(argv[0] as string, argv.slice(1), {
    env: { PATH: SYSTEM_PATH, BERTH_ATTEMPT_ID: name },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  const marker = `BERTH_ATTEMPT_ID=${name}`
  const tree: ProcessTree = { root: child.pid as number, marker, cgroup, spared: new Set() }
  // in any case: no hang-up and no closed pipe ends these trees
  onTestFinished(async () => {
    await killTree(tree)
  })
  await once(child.stdout, 'data')
  return tree
}

describe.each(MEANS)('with %s', (_, means) => {
  it('asks, waits, and then ends every process of a stubborn tree', async (t) => {
    if (!means) return t.skip('this machine does not offer it')
    const tree = await plant(STUBBORN, means)
    // the daemon forks before it gets its own session
    const sessions = () => new Set(listTree(tree).map(({ pid }) => readProcess(pid)?.session))
    await until(() => listTree(tree).length >= 4 && sessions().size > 1)
    const before = listTree(tree)
    let asked = 0
    const left = await endTree(tree, 300, () => {
      asked += 1
      signalGroup(tree.root, 'SIGTERM')
    })
    expect([asked, left]).toEqual([1, 0])
    for (const { pid, startTicks } of before) {
      expect(readProcess(pid)?.startTicks).not.toBe(startTicks)
    }
    tree.cgroup?.remove()
  })

  it('does not wait out the grace when everybody ends by himself', async (t) => {
    if (!means) return t.skip('this machine does not offer it')
    const tree = await plant('echo ready; exec sleep 60', means)
    const hour = 3_600_000
    expect(await endTree(tree, hour, () => signalGroup(tree.root, 'SIGTERM'))).toBe(0)
    tree.cgroup?.remove()
  })
})

it('leaves what was spared alone', async () => {
  const tree = await plant('setsid sleep 60 & echo ready; exec sleep 60', {})
  await until(() => listTree(tree).length === 2)
  const [spared] = listTree(tree).filter(({ pid }) => pid !== tree.root)
  if (!spared) throw new Error('no child')
  expect(await killTree({ ...tree, spared: new Set([memberKey(spared)]) })).toBe(0)
  expect(readProcess(spared.pid)?.startTicks).toBe(spared.startTicks)
  expect(await killTree(tree)).toBe(0)
})

describe('cgroups', () => {
  it('hold also who hides: own session, no environment', async (t) => {
    const [, means] = MEANS.slice(0, 3).find(([, offered]) => offered) ?? []
    if (!means) return t.skip('this machine has no cgroups')
    const tree = await plant('setsid env -i sleep 60 & echo ready; exec sleep 60', means)
    await until(() => listTree(tree).length === 2)
    expect(await killTree(tree)).toBe(0)
    tree.cgroup?.remove()
  })

  it('let processes that go on move to another group', async (t) => {
    const [, means] = MEANS.slice(0, 3).find(([, offered]) => offered) ?? []
    if (!means) return t.skip('this machine has no cgroups')
    const tree = await plant('echo ready; exec sleep 60', means)
    const home = Cgroup.create(means, `bt${randomBytes(4).toString('hex')}`)
    if (!home) throw new Error('no second group')
    tree.cgroup?.moveMembers(home)
    expect(listTree(tree)).toEqual([])
    expect(home.members()).toEqual([tree.root])
    await home.kill()
    home.remove()
    tree.cgroup?.remove()
  })

  it('count what the kernel ended for its memory', async (t) => {
    if (!host.memory && !host.unified) return t.skip('this machine has no cgroups')
    const bounds = { memoryBytes: 32 * 1_024 ** 2, cpus: 1, pids: 64 }
    const cgroup = Cgroup.create(host, `bt${randomBytes(4).toString('hex')}`, bounds)
    const argv = confineCommand('head -c 200000000 /dev/zero | tail -c 150000000 >/dev/null', {
      account: undefined,
      cgroupFiles: cgroup?.joinFiles() ?? [],
      directory: '/',
      variablesFile: '/dev/null',
      additions: {},
      hasTerminal: false,
    })
    const child = spawn(argv[0] as string, argv.slice(1), {
      env: { PATH: SYSTEM_PATH },
      stdio: 'ignore',
    })
    await once(child, 'exit')
    if (cgroup && cgroup.memoryKills() === 0) return t.skip('no memory controller to be had')
    expect(cgroup?.memoryKills()).toBeGreaterThan(0)
    await cgroup?.kill()
    cgroup?.remove()
  })
})
