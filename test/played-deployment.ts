// A deployment of a small shop as it looks on a page: the plan that the docker recipe makes, output with colours, a build
// that fails and one that goes on until it is let go.
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { ActionSchema } from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { Masker } from '../agent/src/runner/mask.ts'
import { ServiceLog } from '../agent/src/supervise/service-log.ts'
import { leave } from './artifact-lab.ts'
import { sha } from './host.ts'
import type { ScriptedAttempt } from './scripted-executor.ts'

export const ACTIONS: MessageInitShape<typeof ActionSchema>[] = [
  {
    name: 'export-orders',
    title: 'Export orders',
    description: 'Writes all orders of the last month to one CSV file.',
    artifactPaths: ['exports/*.csv'],
  },
  {
    name: 'reset-demo',
    title: 'Reset demo data',
    description: 'Empties the shop and fills it with the demo catalogue.',
    confirm: 'All orders in this environment are lost. Go on?',
  },
].map((action) => ({ timeout: durationFromMs(600_000), ...action }))

const PLAN = [
  { name: 'checkout', title: 'Check out', steps: [['fetch', 'Fetch the commit']] },
  { name: 'configure', title: 'Configure', steps: [['read-config', 'Read .service.yml']] },
  {
    name: 'build',
    title: 'Build',
    steps: [
      ['build:web', 'Build web'],
      ['build:api', 'Build api'],
    ],
  },
  { name: 'release', title: 'Release', steps: [['release:api', 'Run the release command of api']] },
  {
    name: 'start',
    title: 'Start',
    steps: [
      ['start:web', 'Start web'],
      ['start:api', 'Start api'],
    ],
  },
  { name: 'route', title: 'Route', steps: [['switch', 'Switch the traffic']] },
  { name: 'verify', title: 'Verify', steps: [['verify:web', 'Verify web']] },
  { name: 'cleanup', title: 'Clean up', steps: [['stop-old', 'Stop the version before']] },
].map((phase) => ({
  ...phase,
  steps: phase.steps.map(([stepId = '', title = '']) => ({ stepId, title })),
}))

const dim = (text: string): string => `\u001b[2m${text}\u001b[0m`
const green = (text: string): string => `\u001b[32m${text}\u001b[0m`
const cyan = (text: string): string => `\u001b[36m${text}\u001b[0m`
const lines = (...texts: string[]): string => `${texts.join('\n')}\n`

const WEB = lines(
  '#1 [internal] load build definition from Dockerfile',
  '#1 DONE 0.1s',
  '#2 [build 1/6] FROM docker.io/library/node:24-alpine',
  '#2 CACHED',
  '#3 [build 2/6] WORKDIR /app',
  '#3 CACHED',
  '#4 [build 3/6] COPY package.json package-lock.json ./',
  '#4 DONE 0.1s',
  '#5 [build 4/6] RUN npm ci',
  dim('added 412 packages, and audited 413 packages in 9s'),
  '#5 DONE 9.4s',
  '#6 [build 5/6] COPY . .',
  '#6 DONE 0.3s',
  '#7 [build 6/6] RUN npm run build',
  dim('> shop@4.2.0 build'),
  dim('> tsc && vite build'),
)
const BUNDLES = ['index', 'checkout', 'cart', 'product', 'vendor'].map(
  (name, n) =>
    `dist/assets/${cyan(`${name}-B${n}x7Qd.js`.padEnd(24))} ${String(31 + n * 17).padStart(4)}.${n}2 kB`,
)
const FAILED = lines(
  `src/cart.ts(14,7): \u001b[31merror\u001b[0m TS2322: Type 'string' is not assignable to type 'number'.`,
  `src/vouchers.ts(52,31): \u001b[31merror\u001b[0m TS2554: Expected 2 arguments, but got 1.`,
  '#7 FAILED',
)

/** One file for a week, and one that is gone when somebody looks. */
async function exportOrders(attempt: ScriptedAttempt, stateDir: string): Promise<void> {
  attempt.say(lines('1,204 orders written to exports/orders-2026-10.csv'))
  const file = (month: string) => ({
    path: `exports/orders-${month}.csv`,
    content: Buffer.from(`number,total\n${'1204,19.90\n'.repeat(4_000)}`),
  })
  await leave(stateDir, attempt, [file('2026-10')])
  await leave(stateDir, attempt, [file('2026-09')], 1)
  attempt.succeed()
}

/** What its services wrote since, as the agent keeps it. */
export function writeServiceLogs(stateDir: string, environmentId: number): void {
  const write = (service: string, texts: string[]) => {
    const dir = join(stateDir, 'logs', `e${environmentId}`, service)
    const log = new ServiceLog(dir, 1, new Masker([]))
    texts.forEach((text, n) => {
      const at = new Date(Date.now() - (texts.length - n) * 1_700).toISOString()
      log.write(text.startsWith('!') ? 'err' : 'out', Buffer.from(`${text.replace('!', '')}\n`), at)
    })
  }
  write('web', [
    'web listens on 3000',
    'GET / 200 14 ms',
    'GET /products/17 200 22 ms',
    'GET /cart 200 9 ms',
    'POST /cart 303 31 ms',
    'GET /checkout 200 18 ms',
  ])
  write('api', [
    'api listens on 3001',
    'migrations: nothing to do',
    '!warning: the rate of EUR/CHF is 26 h old',
    'order 1204 placed, 19.90 EUR',
  ])
}

/** `pace`: how long a step takes at least, so that pictures show times. */
export async function playDeployment(
  attempt: ScriptedAttempt,
  stateDir: string,
  letGo: Promise<void>,
  pace: number,
): Promise<void> {
  const { kind, environment, repository } = attempt.assignment.spec ?? {}
  if (kind?.case === 'action') return exportOrders(attempt, stateDir)
  if (!attempt.isDeploy) return attempt.succeed()
  const name = environment?.identifier ?? ''
  const next = async (stepId: string, part: number, ...texts: string[]): Promise<void> => {
    attempt.step(stepId, '')
    for (const text of texts) attempt.say(text)
    if (pace > 0) await pause(pace * part)
  }
  const commit = repository?.commitSha || sha('c136499e')
  attempt.plan(PLAN)
  await next('fetch', 1, lines(`HEAD is now at ${commit.slice(0, 7)} Fix totals`))
  attempt.checkedOut(commit)
  await next('read-config', 0.5, lines('2 services: web, api', '2 actions'))
  await next('build:web', 4, WEB)
  if (name === 'pr-44') {
    attempt.say(FAILED)
    return attempt.fail('`RUN npm run build` exited with 1.', 1)
  }
  attempt.say(lines(...BUNDLES, green('✓ built in 3.82s'), '#7 DONE 4.6s'))
  await next(
    'build:api',
    3,
    lines('#1 [2/4] COPY --from=deps /app/node_modules ./node_modules', '#1 DONE 0.6s'),
  )
  if (name === 'pr-45') {
    attempt.say(lines('#2 [3/4] COPY . .', '#2 DONE 0.2s', '#3 [4/4] RUN npm run build -w api'))
    await letGo
    return attempt.succeed()
  }
  await next('release:api', 2, lines('Migrating: 20261108_vouchers', green('1 migration applied')))
  await next('start:web', 1, lines('web listens on 3000'))
  await next('start:api', 1, lines('api listens on 3001'))
  await next('switch', 0.5, lines('2 routes switched'))
  await next('verify:web', 1, lines(green(`GET https://${name}.shop.example.com 200`)))
  await next('stop-old', 1, lines('Nothing ran before.'))
  attempt.emit({ case: 'actions', value: { actions: ACTIONS } })
  const service = (of: string, host: string, port: number) => ({
    name: of,
    hosts: [`${host}.shop.example.com`],
    port,
    url: `https://${host}.shop.example.com`,
  })
  attempt.serve([service('web', name, 3_000), service('api', `api-${name}`, 3_001)])
  attempt.succeed()
}
