// npm run chaos -- control-plane|agent [--kills 20] [--pauses 2] [--environments 4] [--seed N] [--break NAME]
//
// Kills the control plane or the agent's daemon with SIGKILL at random moments of running deployments (the agent is also
// paused until its session is given up), then compares with an oracle outside Berth. The last line has the counts; the
// exit code is 1 on any violation. --break runs a build that is broken on purpose: the harness must catch it.
import { parseArgs } from 'node:util'
import { BREAKS, countViolations, runChaos } from './run.ts'

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      kills: { type: 'string', default: '20' },
      pauses: { type: 'string', default: '2' },
      environments: { type: 'string', default: '4' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      break: { type: 'string' },
    },
  })
  const [what] = positionals
  const build = values.break === undefined ? {} : BREAKS[values.break]
  if ((what !== 'control-plane' && what !== 'agent') || !build) {
    console.error(
      'usage: npm run chaos -- control-plane|agent [--kills N] [--pauses N] [--environments N]',
    )
    console.error(`       [--seed N] [--break ${Object.keys(BREAKS).join('|')}]`)
    return 2
  }
  console.log(`seed ${values.seed}`)
  const kills = Number(values.kills)
  const pauses = what === 'agent' ? Number(values.pauses) : 0
  const v = await runChaos({
    what,
    kills,
    pauses,
    environments: Number(values.environments),
    seed: Number(values.seed),
    build,
    say: (line) => console.log(line),
  })
  const violations = countViolations(v)
  const faults = what === 'agent' ? `${kills} kills and ${pauses} pauses` : `${kills} kills`
  console.log(
    `${what}: ${faults}, ${v.tasks} tasks: ${v.lost} lost, ${v.startedTwice} started twice, ` +
      `${v.identical} logs identical, ${v.different} different: ${violations === 0 ? 'ok' : 'VIOLATED'}`,
  )
  return violations === 0 ? 0 : 1
}

process.exit(await main())
