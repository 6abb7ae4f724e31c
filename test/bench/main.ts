// npm run bench -- logs|latency|output|api|certificates|webhooks|subscribers [--lines 5000000] [--rounds 30]
//   [--projects 1000] [--tasks 1000000] [--per-second 1000] [--subscribers 500]
//
// Speed and memory of the product as real processes on this machine, as ratios to a floor measured in the same run.
// Machines are shared and noisy: the ratio is the figure, the absolute number is for orientation.
import { parseArgs } from 'node:util'
import { benchApi } from './api.ts'
import { benchCertificates } from './certificates.ts'
import { benchSubscribers, benchWebhooks } from './floods.ts'
import { benchLatency } from './latency.ts'
import { benchLogs } from './logs.ts'

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    lines: { type: 'string', default: '5000000' },
    rounds: { type: 'string', default: '30' },
    projects: { type: 'string', default: '1000' },
    tasks: { type: 'string', default: '1000000' },
    'per-second': { type: 'string', default: '1000' },
    subscribers: { type: 'string', default: '500' },
  },
})
switch (positionals[0]) {
  case 'logs':
    await benchLogs(Number(values.lines))
    break
  case 'latency':
    await benchLatency(Number(values.rounds))
    break
  case 'api':
    await benchApi(Number(values.projects), Number(values.tasks))
    break
  case 'output':
    await import('./output.ts')
    break
  case 'certificates':
    await benchCertificates()
    break
  case 'webhooks':
    await benchWebhooks(Number(values['per-second']))
    break
  case 'subscribers':
    await benchSubscribers(Number(values.subscribers))
    break
  default:
    console.error(
      'usage: npm run bench -- logs | latency | output | api | certificates | webhooks | subscribers',
    )
    process.exitCode = 2
}
