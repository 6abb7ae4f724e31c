// npm run bench -- logs|latency|output|api|certificates [--lines 5000000] [--rounds 30] [--projects 1000]
//   [--tasks 1000000]
//
// Speed and memory of the product as real processes on this machine, as ratios to a floor measured in the same run.
// Machines are shared and noisy: the ratio is the figure, the absolute number is for orientation.
import { parseArgs } from 'node:util'
import { benchApi } from './api.ts'
import { benchCertificates } from './certificates.ts'
import { benchLatency } from './latency.ts'
import { benchLogs } from './logs.ts'

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    lines: { type: 'string', default: '5000000' },
    rounds: { type: 'string', default: '30' },
    projects: { type: 'string', default: '1000' },
    tasks: { type: 'string', default: '1000000' },
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
  default:
    console.error('usage: npm run bench -- logs | latency | output | api | certificates')
    process.exitCode = 2
}
