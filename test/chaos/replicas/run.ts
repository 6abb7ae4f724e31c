// npm run chaos -- replicas: faults of control planes, of the network and of the database while real agents deploy, then
// the judgement of the history. Everything is bounded in time; a run that hangs is a violation.
import { copyFileSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type FixtureOptions, until } from '../../fixtures/server/installation.ts'
import { type Judgement, judge } from '../../histories/checker.ts'
import { readHistory } from '../../histories/history.ts'
import { seeded } from '../run.ts'
import { ReplicasInstallation } from './installation.ts'
import { ReplicasLoad } from './load.ts'
import { describeOutages, type Outage, Probe } from './probe.ts'

const AGENTS = 3
const LEASE_MS = 10_000
const RECOVER_MS = 120_000
const SETTLE_MS = 180_000
const ROLLING_EVERY = 10 // faults

/** Builds that are broken on purpose; the checker must catch each. */
export const BROKEN: Record<string, FixtureOptions> = {
  'forgets-deployments': { controlPlane: 'test/chaos/broken-control-plane.ts' },
  'two-attempts': { agent: 'test/chaos/broken-agent.ts', env: { BERTH_BREAK: 'no-claim' } },
  'falling-fence': { controlPlane: 'test/chaos/replicas/falling-fence.ts' },
}

export interface ReplicasPlan {
  kills: number
  replicas: number
  environments: number
  seed: number
  build: FixtureOptions
  say: (line: string) => void
}

type Fault = 'kill -9' | 'pause' | 'network cut' | 'database cut' | 'rolling restart' | 'failover'

interface Scene {
  installation: ReplicasInstallation
  random: () => number
  say: (line: string) => void
}

/** In an order that the seed decides: a third of kills, the others in equal parts, the failover in the middle. */
function planFaults(count: number, random: () => number): Fault[] {
  const kinds: Fault[] = ['kill -9', 'pause', 'network cut', 'kill -9', 'database cut']
  const faults: Fault[] = Array.from({ length: count }, (_, n) => kinds[n % kinds.length] as Fault)
  for (let i = faults.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[faults[i], faults[j]] = [faults[j] as Fault, faults[i] as Fault]
  }
  const middle = Math.floor(count / 2)
  return faults.flatMap((fault, n) => [
    ...(n === middle ? (['failover'] as const) : []),
    fault,
    ...((n + 1) % ROLLING_EVERY === 0 || (count < ROLLING_EVERY && n === count - 1)
      ? (['rolling restart'] as const)
      : []),
  ])
}

async function perform(fault: Fault, { installation, random, say }: Scene): Promise<void> {
  const { replicas } = installation
  const replica = replicas[Math.floor(random() * replicas.length)]
  if (!replica) throw new Error('no control plane')
  const how = random() < 0.5 ? 'blackhole' : 'reset'
  switch (fault) {
    case 'kill -9':
      await replica.end('SIGKILL')
      await delay(random() * 2_000)
      replica.start()
      return
    case 'pause':
      replica.send('SIGSTOP')
      await delay(LEASE_MS + 1_000 + random() * 5_000)
      replica.send('SIGCONT')
      return
    case 'network cut':
      replica.cut(how)
      await delay(3_000 + random() * 12_000)
      replica.heal()
      return
    case 'database cut':
      replica.net.database.cut(how)
      await delay(3_000 + random() * 12_000)
      replica.net.database.heal()
      return
    case 'rolling restart':
      for (const one of replicas) {
        await one.end('SIGTERM')
        one.start()
        await one.ready()
        await until(
          'the balancer',
          () => installation.balancer.ready.includes(one.name) || undefined,
        )
      }
      return
    case 'failover':
      return failOver(installation, random, say)
  }
}

/**
 * The primary dies, with a reset of its connections or, as when its machine loses power, without a word. The standby has
 * every commit that was acknowledged.
 */
async function failOver(
  { pair, replicas }: ReplicasInstallation,
  random: () => number,
  say: (line: string) => void,
): Promise<void> {
  const proxies = replicas.map(({ net }) => net.database)
  const isSilent = random() < 0.5
  for (const proxy of proxies) proxy.cut(isSilent ? 'blackhole' : 'reset')
  await pair.killPrimary()
  const began = performance.now()
  await delay(3_000 + random() * 5_000) // until the operator's tool decides
  await pair.promote()
  const ms = Math.round(performance.now() - began)
  say(
    `  the primary died ${isSilent ? 'without a word' : 'with a reset'}, the standby took over after ${ms} ms`,
  )
  for (const proxy of proxies) {
    proxy.retarget({ port: pair.port })
    proxy.welcome()
  }
}

export async function chaosReplicas(plan: ReplicasPlan): Promise<number> {
  const { say } = plan
  const random = seeded(plan.seed)
  const build = { ...plan.build, env: { BERTH_LOG: 'info', ...plan.build.env } }
  say(`starting PostgreSQL with a standby, ${plan.replicas} control planes, ${AGENTS} agents …`)
  const installation = await ReplicasInstallation.open({
    replicas: plan.replicas,
    agents: AGENTS,
    build,
  })
  let load: ReplicasLoad | undefined
  let probe: Probe | undefined
  const trouble: string[] = []
  const outages = new Map<string, Outage[]>()
  const faults = planFaults(plan.kills, random)
  try {
    for (const replica of installation.replicas) {
      replica.onRestart = ({ name }) =>
        say(`  ${name} ended by itself: ${installation.fixture.logOf(name).slice(-600)}`)
    }
    load = await ReplicasLoad.start(installation, plan.environments)
    probe = new Probe(installation.fixture.url, installation.fixture.token)
    for (const [n, fault] of faults.entries()) {
      await load.busy()
      await delay(random() * 2_000)
      const from = performance.now()
      await perform(fault, { installation, random, say })
      await installation.allReady(RECOVER_MS).catch((error: Error) => {
        trouble.push(`${fault}: ${error.message}`)
      })
      const to = performance.now()
      await delay(2_000) // for the answers to the last questions
      const outage = probe.between(from, to)
      outages.set(fault, [...(outages.get(fault) ?? []), outage])
      const took = Math.round((to - from) / 100) / 10
      const gap = Math.round(outage.ms)
      say(
        `fault ${n + 1} of ${faults.length}: ${fault}, healed after ${took} s, without service ` +
          `${gap} ms, ${load.acknowledged} deployments acknowledged`,
      )
      if (trouble.length > 0) break
    }
    probe.stop()
    say('waiting for the end of all deployments …')
    const { file, notes } = await load.finish(SETTLE_MS)
    const judgement = judge(readHistory(file), { allRun: true, resets: false, closed: true })
    const bad = [...trouble, ...notes, ...judgement.violations.map((v) => `${v.rule}: ${v.text}`)]
    for (const line of bad.slice(0, 30)) say(line)
    if (bad.length > 0) {
      const kept = join(mkdtempSync(join(tmpdir(), 'berth-chaos-')), 'history.jsonl')
      copyFileSync(file, kept)
      say(`${installation.logs()}\nthe history: ${kept}`)
    }
    for (const line of describeOutages(outages)) say(line)
    const ended = installation.replicas.reduce((sum, { restarts }) => sum + restarts, 0)
    say(`${ended} control planes ended by themselves and were started again`)
    say(summary(faults.length, judgement, bad.length))
    return bad.length === 0 ? 0 : 1
  } catch (error) {
    say(`${error instanceof Error ? error.message : String(error)}\n${installation.logs()}`)
    return 1
  } finally {
    probe?.stop()
    await load?.stop().catch(() => undefined)
    await installation.close()
  }
}

function summary(faults: number, { violations, counts }: Judgement, bad: number): string {
  const of = (...rules: string[]) => violations.filter(({ rule }) => rules.includes(rule)).length
  const lost = of('acknowledged deployments are present', 'received events are present')
  const twice = of(
    'one deployment for a request',
    'one start of an attempt',
    'one attempt at a time',
    'one notice for each end',
  )
  const wrong = of('verdicts are what the application recorded', 'fences rise')
  const logs = of('logs are what the application wrote')
  const gaps = of('readers have no gap and no repetition')
  return (
    `replicas: ${faults} faults, ${counts.deployments} deployments, ${counts.runs} runs, ${counts.events} events to ` +
    `${counts.readers} readers, ${counts.notices} notifications: ${lost} lost, ${twice} duplicated, ${wrong} wrong ` +
    `verdicts, ${counts.logs - logs} logs identical, ${logs} different, ${gaps} gaps: ${bad === 0 ? 'ok' : 'VIOLATED'}`
  )
}
