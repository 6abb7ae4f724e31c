// One chaos run: kills (and pauses) while deployments run, then the verdict of the oracle outside Berth.
import type { ChildProcess } from 'node:child_process'
import { Fixture, type FixtureOptions } from '../fixtures/server/installation.ts'
import { Load, type Verdict } from './load.ts'

/** Builds that are broken on purpose; the harness must catch each. */
export const BREAKS: Record<string, FixtureOptions> = {
  'forgets-deployments': { controlPlane: 'test/chaos/broken-control-plane.ts' },
  'forgets-unknown-attempts': { controlPlane: 'test/chaos/forgetful-control-plane.ts' },
  'forgets-notices': { controlPlane: 'test/chaos/forgets-notices.ts' },
  'no-journal': { agent: 'test/chaos/broken-agent.ts', env: { BERTH_BREAK: 'no-journal' } },
  'no-claim': { agent: 'test/chaos/broken-agent.ts', env: { BERTH_BREAK: 'no-claim' } },
}
const SETTLE_MS = 90_000
const PAUSE_MS = 40_000 // longer than three heartbeats, so the session times out meanwhile

export interface ChaosPlan {
  what: 'control-plane' | 'agent'
  kills: number
  pauses: number
  environments: number
  seed: number
  build?: FixtureOptions
  say: (line: string) => void
}

export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function kill(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await gone
}

export const countViolations = ({ lost, startedTwice, different, notices }: Verdict): number =>
  lost +
  startedTwice +
  different +
  notices.missing +
  notices.doubled +
  notices.disordered +
  notices.forged

export async function runChaos(plan: ChaosPlan): Promise<Verdict> {
  const { what, kills, say } = plan
  const random = seeded(plan.seed)
  const fixture = await Fixture.open(plan.build)
  try {
    const load = await Load.start(fixture, plan.environments)
    for (let n = 1; n <= kills; n++) {
      await load.busy()
      await pause(random() * 2_500)
      await kill(what === 'agent' ? fixture.agent : fixture.controlPlane)
      await pause(random() * 1_000)
      if (what === 'agent') await fixture.startAgent()
      else await fixture.startControlPlane()
      say(`kill ${n} of ${kills}, ${load.started} deployments acknowledged`)
    }
    for (let n = 1; n <= plan.pauses; n++) {
      await load.busy()
      fixture.agent?.kill('SIGSTOP')
      await pause(PAUSE_MS)
      fixture.agent?.kill('SIGCONT')
      await fixture.online()
      say(`pause ${n} of ${plan.pauses}, ${load.started} deployments acknowledged`)
    }
    const verdict = await load.judge(SETTLE_MS)
    for (const line of verdict.details.slice(0, 20)) say(line)
    if (countViolations(verdict) > 0)
      say(`${fixture.logOf('control-plane')}\n${fixture.logOf('agent')}`)
    return verdict
  } finally {
    await fixture.close()
  }
}
