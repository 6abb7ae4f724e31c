// npm run chaos -- control-plane|agent [--kills 20] [--pauses 2] [--environments 4] [--seed N] [--break NAME]
// npm run chaos -- replicas [--kills 30] [--environments 6] [--seed N] [--break forgets-deployments|two-attempts|…]
// npm run chaos -- docker [--kills 42] [--seed N] [--only runner@build,edge@route]
// npm run chaos -- restore [--rounds 10] [--seed N] [--break forgets-unknown-attempts]
// npm run chaos -- install [--release FOLDER] [--root FOLDER] [--pages]
// npm run chaos -- install --containers [--release FOLDER]
// npm run chaos -- upgrade [--deployments 30] [--servers 5]
// npm run chaos -- upgrade --machine [--root FOLDER]
// npm run chaos -- disk [--deployments 200] [--environments 10] [--gigabytes 4]
// npm run chaos -- servers [--only bookworm,trixie,noble]
// npm run chaos -- engines [--only bookworm,trixie]
//
// Kills the control plane or the agent's daemon with SIGKILL at random moments of running deployments (the agent is
// also paused until its session times out), then compares with an oracle outside Berth. The last line has the counts;
// the exit code is 1 on any violation. --break runs a build that is broken on purpose, which the harness must catch.
// `replicas` runs three control planes on PostgreSQL with a standby behind a balancer: kills, pauses, network cuts,
// rolling restarts and one failover; it reports the time without service for each kind.
// `restore` loses the control plane and continues from a backup that was taken in the middle of deployments. `docker`
// kills daemon, runner, engine, edge and Caddy in each phase of a deployment; `disk` deploys on a small disk. `install`
// begins with two empty machines and ends with them; with --pages it types every line of docs/operations. `servers`
// installs and removes an agent on fresh systems; it needs the network, and BERTH_TEST_UBUNTU_MIRROR for Ubuntu (noble).
// `engines` judges real Docker and Podman. `upgrade --machine` upgrades a package under systemd, with PostgreSQL.
// `install --containers` starts the compose file of a release.
import { parseArgs } from 'node:util'
import { chaosDisk, chaosDocker } from './docker-main.ts'
import { chaosEngines } from './engines.ts'
import { chaosInstall } from './install.ts'
import { chaosContainers } from './install-containers.ts'
import { BROKEN, chaosReplicas } from './replicas/run.ts'
import { chaosRestore } from './restore.ts'
import { BREAKS, countViolations, runChaos } from './run.ts'
import { chaosServers, SYSTEMS } from './servers.ts'
import { chaosUpgrade } from './upgrade.ts'
import { chaosUpgradeMachine } from './upgrade-machine.ts'

const USAGE = `usage: npm run chaos -- control-plane|agent [--kills N] [--pauses N] [--environments N]
                        [--seed N] [--break ${Object.keys(BREAKS).join('|')}]
       npm run chaos -- replicas [--kills N] [--environments N] [--seed N]
                        [--break ${Object.keys(BROKEN).join('|')}]
       npm run chaos -- docker [--kills N] [--seed N] [--only FAULT@MOMENT,…]
       npm run chaos -- restore [--rounds N] [--seed N] [--break forgets-unknown-attempts]
       npm run chaos -- install [--release FOLDER] [--root FOLDER] [--pages]
       npm run chaos -- install --containers [--release FOLDER] [--root FOLDER]
       npm run chaos -- upgrade [--deployments N] [--servers N]
       npm run chaos -- upgrade --machine [--root FOLDER]
       npm run chaos -- disk [--deployments N] [--environments N] [--gigabytes N]
       npm run chaos -- servers [--only SYSTEM,…]
       npm run chaos -- engines [--only SUITE,…]`

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    kills: { type: 'string' },
    rounds: { type: 'string', default: '10' },
    pauses: { type: 'string', default: '2' },
    replicas: { type: 'string', default: '3' },
    environments: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    break: { type: 'string' },
    only: { type: 'string' },
    deployments: { type: 'string' },
    servers: { type: 'string' },
    gigabytes: { type: 'string', default: '4' },
    release: { type: 'string' },
    root: { type: 'string' },
    pages: { type: 'boolean', default: false },
    containers: { type: 'boolean', default: false },
    machine: { type: 'boolean', default: false },
  },
})

async function chaosProcess(what: 'control-plane' | 'agent'): Promise<number> {
  const build = values.break === undefined ? {} : BREAKS[values.break]
  if (!build) {
    console.error(USAGE)
    return 2
  }
  console.log(`seed ${values.seed}`)
  const kills = Number(values.kills ?? 20)
  const pauses = what === 'agent' ? Number(values.pauses) : 0
  const v = await runChaos({
    what,
    kills,
    pauses,
    environments: Number(values.environments ?? 4),
    seed: Number(values.seed),
    build,
    say: (line) => console.log(line),
  })
  const violations = countViolations(v)
  const faults = what === 'agent' ? `${kills} kills and ${pauses} pauses` : `${kills} kills`
  console.log(
    `${what}: ${faults}, ${v.tasks} tasks: ${v.lost} lost, ${v.startedTwice} started twice, ` +
      `${v.identical} logs identical, ${v.different} different, ${v.notices.notified} notifications: ` +
      `${v.notices.missing} lost, ${v.notices.doubled} doubled, ${v.notices.disordered} out of order: ${violations === 0 ? 'ok' : 'VIOLATED'}`,
  )
  return violations === 0 ? 0 : 1
}

async function main(): Promise<number> {
  const [what] = positionals
  switch (what) {
    case 'control-plane':
    case 'agent':
      return chaosProcess(what)
    case 'replicas': {
      const build = values.break === undefined ? {} : BROKEN[values.break]
      if (!build) break
      console.log(`seed ${values.seed}`)
      return chaosReplicas({
        kills: Number(values.kills ?? 30),
        replicas: Number(values.replicas),
        environments: Number(values.environments ?? 6),
        seed: Number(values.seed),
        build,
        say: (line) => console.log(line),
      })
    }
    case 'docker':
      return chaosDocker({
        ...values,
        kills: Number(values.kills ?? 42),
        seed: Number(values.seed),
      })
    case 'restore':
      return chaosRestore({
        rounds: Number(values.rounds),
        seed: Number(values.seed),
        build: BREAKS[values.break ?? ''] ?? {},
      })
    case 'install':
      if (values.containers) return chaosContainers({ release: values.release, base: values.root })
      return chaosInstall({ release: values.release, base: values.root, pages: values.pages })
    case 'upgrade':
      if (values.machine) return chaosUpgradeMachine({ base: values.root })
      return chaosUpgrade({
        deployments: Number(values.deployments ?? 30),
        servers: Number(values.servers ?? 5),
      })
    case 'disk':
      return chaosDisk({
        deployments: Number(values.deployments ?? 200),
        environments: Number(values.environments ?? 10),
        gigabytes: Number(values.gigabytes),
      })
    case 'servers':
      return chaosServers((values.only ?? Object.keys(SYSTEMS).join(',')).split(','), console.log)
    case 'engines':
      return chaosEngines((values.only ?? 'bookworm,trixie').split(','), console.log)
  }
  console.error(USAGE)
  return 2
}

process.exit(await main())
