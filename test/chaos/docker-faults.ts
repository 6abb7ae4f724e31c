// The faults of the docker chaos, and the steps at which they strike. A fault ends when its victim is back, except for
// edge and Caddy, which the daemon must restart itself.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DockerFixture } from '../fixtures/docker/docker-fixture.ts'
import { until } from '../fixtures/server/installation.ts'
import type { WatchedAttempt } from './attempt-watch.ts'

export const FAULTS = {
  agent: 'kill -9 of the daemon',
  runner: 'kill -9 of the runner',
  'engine-term': 'restart of the engine',
  'engine-kill': 'kill -9 of the engine',
  edge: 'kill -9 of the edge',
  caddy: 'kill -9 of Caddy',
} as const
export type Fault = keyof typeof FAULTS

/** The steps of a phase at which a fault strikes. */
export const MOMENTS = {
  fetch: /^fetch$/,
  build: /^build:/,
  release: /^release:/,
  start: /^start:|^health:/,
  route: /^switch$/,
  verify: /^verify:/,
  cleanup: /^drain$/,
} as const
export type Moment = keyof typeof MOMENTS

export interface Strike {
  fault: Fault
  moment: Moment
}

/** Every fault at every moment, in random order; repeated if more are wanted. */
export function drawStrikes(count: number, random: () => number): Strike[] {
  const all = (Object.keys(FAULTS) as Fault[]).flatMap((fault) =>
    (Object.keys(MOMENTS) as Moment[]).map((moment) => ({ fault, moment })),
  )
  const drawn: Strike[] = []
  while (drawn.length < count) {
    const left = [...all]
    while (left.length > 0) drawn.push(...left.splice(Math.floor(random() * left.length), 1))
  }
  return drawn.slice(0, count)
}

/** `runner@build,edge@route`. */
export const readStrikes = (text: string): Strike[] =>
  text.split(',').map((one) => {
    const [fault = '', moment = ''] = one.split('@')
    if (!(fault in FAULTS) || !(moment in MOMENTS)) throw new Error(`unknown: ${one}`)
    return { fault: fault as Fault, moment: moment as Moment }
  })

/** The pid of edge or Caddy from the agent's file. */
export const proxyPid = ({ fixture }: DockerFixture, name: 'edge' | 'caddy'): number => {
  const file = join(fixture.stateDir, 'run', `${name}.json`)
  return (JSON.parse(readFileSync(file, 'utf8')) as { pid: number }).pid
}

async function killAgent({ fixture }: DockerFixture): Promise<void> {
  const { agent } = fixture
  if (!agent) return
  const gone = new Promise((resolve) => agent.once('exit', resolve))
  agent.kill('SIGKILL')
  await gone
  await fixture.startAgent()
}

async function killProxy(made: DockerFixture, name: 'edge' | 'caddy'): Promise<void> {
  const before = proxyPid(made, name)
  process.kill(before, 'SIGKILL')
  await until(`another ${name}`, () => proxyPid(made, name) !== before || undefined)
}

/** Returns how long the victim was down. */
export async function strike(
  made: DockerFixture,
  attempt: WatchedAttempt,
  fault: Fault,
): Promise<number> {
  const began = performance.now()
  await hurt(made, attempt, fault)
  return performance.now() - began
}

async function hurt(made: DockerFixture, attempt: WatchedAttempt, fault: Fault): Promise<void> {
  switch (fault) {
    case 'agent':
      return killAgent(made)
    case 'runner':
      process.kill(attempt.pid, 'SIGKILL')
      return
    case 'engine-term':
      return made.engine.restart('SIGTERM')
    case 'engine-kill':
      return made.engine.restart('SIGKILL')
    default:
      return killProxy(made, fault)
  }
}
