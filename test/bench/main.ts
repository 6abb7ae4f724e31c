// npm run bench -- logs|latency|output|api|certificates|client|webhooks|subscribers|cutover|deploy|artifacts|agent|
//   supervisor|log-viewer|first-app|fleet [--lines 5000000] [--rounds 30] [--projects 1000] [--tasks 1000000] [--per-second 1000]
//   [--subscribers 500] [--redeploys 10] [--recipe manual] [--control] [--peer] [--post-kib 64] [--replicas 3]
//   [--kills 10] [--mib 1024] [--environments 5] [--seconds 60] [--services 20] [--engine sqlite|postgres] [--agents 5000]
//   [--broken]
//
// Speed and memory of the product as real processes on this machine, as ratios to a floor measured in the same run.
// Machines are shared and noisy: the ratio is the figure, the absolute number is for orientation.
import { parseArgs } from 'node:util'
import { benchAgent } from './agent.ts'
import { benchApi } from './api.ts'
import { benchArtifacts } from './artifacts.ts'
import { benchCertificates } from './certificates.ts'
import { benchClient } from './client.ts'
import { benchCutover } from './cutover.ts'
import { benchDeploy } from './deploy.ts'
import { benchFirstApp } from './first-app.ts'
import { benchFleet } from './fleet/fleet.ts'
import { benchSubscribers, benchWebhooks } from './floods.ts'
import { hasMissed } from './goals.ts'
import { benchLatency } from './latency.ts'
import { benchLogViewer } from './log-viewer.ts'
import { benchLogs } from './logs.ts'
import { benchSupervisor } from './supervisor.ts'

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    lines: { type: 'string' },
    rounds: { type: 'string' },
    projects: { type: 'string', default: '1000' },
    tasks: { type: 'string', default: '1000000' },
    'per-second': { type: 'string', default: '1000' },
    subscribers: { type: 'string', default: '500' },
    redeploys: { type: 'string', default: '10' },
    replicas: { type: 'string', default: '1' },
    kills: { type: 'string', default: '10' },
    mib: { type: 'string', default: '1024' },
    environments: { type: 'string' },
    seconds: { type: 'string' },
    services: { type: 'string', default: '20' },
    engine: { type: 'string' },
    'post-kib': { type: 'string' },
    agents: { type: 'string', default: '1000' },
    program: { type: 'string' },
    profile: { type: 'string' },
    broken: { type: 'boolean', default: false },
    control: { type: 'boolean', default: false },
    peer: { type: 'boolean', default: false },
    recipe: { type: 'string', default: 'docker' },
  },
})
switch (positionals[0]) {
  case 'logs':
    await benchLogs(
      Number(values.lines ?? 5_000_000),
      values.engine === 'postgres' ? 'postgres' : 'sqlite',
    )
    break
  case 'latency':
    await benchLatency(Number(values.rounds ?? 30))
    break
  case 'api':
    await benchApi({
      engine: values.engine === 'postgres' ? 'postgres' : 'sqlite',
      projects: Number(values.projects),
      environments: Number(values.environments ?? 20_000),
      tasks: Number(values.tasks),
    })
    break
  case 'first-app':
    await benchFirstApp()
    break
  case 'output':
    await import('./output.ts')
    break
  case 'certificates':
    await benchCertificates()
    break
  case 'client':
    await benchClient(Number(values.rounds ?? 15))
    break
  case 'webhooks':
    await benchWebhooks(Number(values['per-second']))
    break
  case 'subscribers':
    await benchSubscribers(Number(values.subscribers))
    break
  case 'cutover':
    await benchCutover({
      ...values,
      redeploys: Number(values.redeploys),
      replicas: Number(values.replicas),
      kills: Number(values.kills),
      postBytes: values['post-kib'] ? { postBytes: Number(values['post-kib']) * 1_024 } : {},
    })
    break
  case 'deploy':
    await benchDeploy(Number(values.rounds ?? 7))
    break
  case 'artifacts':
    await benchArtifacts(Number(values.mib), Number(values.rounds ?? 3))
    break
  case 'agent':
    await benchAgent(Number(values.environments ?? 5), Number(values.seconds ?? 60))
    break
  case 'supervisor':
    await benchSupervisor(Number(values.services))
    break
  case 'log-viewer': {
    await benchLogViewer(Number(values.lines ?? 200_000), Number(values.seconds ?? 10))
    break
  }
  case 'fleet':
    await benchFleet({
      ...values,
      agents: Number(values.agents),
      replicas: Number(values.replicas),
      engine: values.engine === 'sqlite' ? 'sqlite' : 'postgres',
    })
    break
  default:
    console.error(
      'usage: npm run bench -- logs | latency | output | api | certificates | client | webhooks | subscribers | cutover | deploy | artifacts | agent | log-viewer | fleet',
    )
    process.exitCode = 2
}
if (hasMissed()) process.exitCode = 1
