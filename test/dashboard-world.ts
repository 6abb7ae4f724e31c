// An installation with something of everything, for the pictures and for the checks that look at every page: people,
// projects, environments in each state, a deployment that runs until it is let go, one that failed, waiting pull requests.
import type { Environment } from '@berth/shared/rest'
import type { ActionSchema } from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { type Host, makeHost, sha } from './host.ts'
import { PASSWORD, person } from './people.ts'
import { Platform } from './platform.ts'
import type { ScriptedAttempt } from './scripted-executor.ts'

/** Every page of somebody signed in. */
export const PAGES = [
  'projects',
  'new-project',
  'project',
  'project-deployments',
  'project-webhooks',
  'project-settings',
  'environment',
  'environment-failed',
  'environment-deploying',
  'environment-deployments',
  'environment-logs',
  'environment-variables',
  'environment-actions',
  'environment-settings',
  'task',
  'task-failed',
  'task-succeeded',
  'servers',
  'server',
  'members',
  'organization',
  'audit',
  'account',
  'tokens',
  'admin',
  'device',
  'not-found',
] as const
export type PageName = (typeof PAGES)[number]

export interface World {
  platform: Platform
  host: Host
  /** Where the world can be looked at: a name of the page and its path. */
  pages: Record<PageName, string>
  staging: Environment
  close(): Promise<void>
}

export const ADA = { email: 'ada@example.com', password: PASSWORD }
export const GRACE = { email: 'grace@example.com', password: PASSWORD }

const ACTIONS: MessageInitShape<typeof ActionSchema>[] = [
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

/** A deployment as a real one looks. */
async function play(attempt: ScriptedAttempt, letGo: Promise<void>): Promise<void> {
  if (!attempt.isDeploy) return attempt.succeed()
  const branch = attempt.assignment.spec?.environment?.identifier ?? ''
  attempt.say('Cloning into the work directory\nHEAD is now at c136499 Fix totals\n')
  attempt.checkedOut(attempt.assignment.spec?.repository?.commitSha || sha('c136499e'))
  attempt.step('build:web', 'Build image web', 'build')
  attempt.say('#9 [build 3/6] COPY . .\n#10 [build 4/6] RUN npm ci\nadded 412 packages in 9s\n')
  if (branch === 'pr-44') {
    attempt.say(
      "src/cart.ts(14,7): error TS2322: Type 'string' is not assignable to type 'number'.\n",
    )
    return attempt.fail('`RUN npm run build` exited with 1.', 1)
  }
  if (branch === 'pr-45') {
    await letGo
    return attempt.succeed()
  }
  attempt.step('start:web', 'Start web', 'start')
  attempt.emit({ case: 'actions', value: { actions: ACTIONS } })
  attempt.serve([
    {
      name: 'web',
      hosts: [`${branch}.shop.example.com`],
      port: 3_000,
      url: `https://${branch}.shop.example.com`,
    },
    {
      name: 'api',
      hosts: [`api-${branch}.shop.example.com`],
      port: 3_001,
      url: `https://api-${branch}.shop.example.com`,
    },
  ])
  attempt.succeed()
}

export async function makeWorld(): Promise<World> {
  const platform = await Platform.start('sqlite', { password: PASSWORD })
  const { cp, serverId } = platform
  const { promise: letGo, resolve: go } = Promise.withResolvers<void>()
  platform.executor.script = (attempt) => play(attempt, letGo)
  await cp.call('PATCH', `/api/servers/${serverId}`, {
    name: 'fra-1',
    hostname: 'fra-1.example.com',
  })
  await cp.server('ams-2')
  await cp.call('PATCH', `/api/projects/${platform.projectId}`, {
    name: 'blog',
    domain: 'blog.example.com',
  })
  const grace = await person(cp, 'Grace', 'developer')
  await cp.make('/api/organizations/1/invitations', { email: 'edsger@example.com', role: 'viewer' })
  const host = await makeHost(cp, serverId, {
    name: 'shop',
    domain: 'shop.example.com',
    default_recipe: 'docker', // forks run in containers only
  })
  const variables = { APP_KEY: 'base64:abc', STRIPE_KEY: 'sk_test_1' }
  const staging = await cp.environment(host.projectId, 'staging', {
    title: 'Staging',
    sticky: true,
    variables,
  })
  const demo = await cp.environment(host.projectId, 'demo', {
    title: 'Demo for the sales team, kept as it is until the fair in spring',
    branch: 'release/2026.11',
  })
  let deployed = 0
  for (const e of [staging, demo]) {
    const task = await platform.deploy(e.id)
    await platform.settled(task.body.id)
    deployed = task.body.id
  }
  await cp.call('PATCH', `/api/environments/${demo.id}`, { owner_id: grace.id })
  await cp.call('PATCH', `/api/environments/${staging.id}`, { protected: true })
  await cp.call('PATCH', `/api/environments/${staging.id}/variables`, {
    set: { APP_KEY: 'base64:def', FEATURE_X: 'on' },
  })
  const opened = [
    { number: 42, title: 'Checkout v2', branch: 'checkout-v2', head: sha('c136499e') },
    { number: 44, title: 'Cart: totals with vouchers', branch: 'vouchers', head: sha('9f2c1e07') },
  ]
  let broken = 0
  for (const pull of opened) {
    const [task = 0] = (await host.opened(pull)).body.task_ids
    await platform.settled(task)
    broken = task
  }
  await host.opened({
    number: 51,
    title: 'Add coupon',
    head: sha('77aa'),
    fork: 99,
    author: 'mallory',
  })
  await cp.call('PUT', `/api/projects/${host.projectId}/environment_limit`, { limit: 5 })
  const held = (await host.opened({ number: 45, title: 'Search as you type', head: sha('45') }))
    .body
  await host.opened({ number: 63, title: 'Dark product pages', head: sha('63') })
  await host.push('no-such-branch', sha('aa'))
  const failed = await host.environment('pr-44')
  const running = await host.environment('pr-45')
  const e = `/environments/${staging.id}`
  const p = `/projects/${host.projectId}`
  return {
    platform,
    host,
    staging,
    pages: {
      projects: '/',
      'new-project': '/projects/new',
      project: p,
      'project-deployments': `${p}/deployments`,
      'project-webhooks': `${p}/webhooks`,
      'project-settings': `${p}/settings`,
      environment: e,
      'environment-failed': `/environments/${failed?.id}`,
      'environment-deploying': `/environments/${running?.id}`,
      'environment-deployments': `${e}/deployments`,
      'environment-logs': `${e}/logs`,
      'environment-variables': `${e}/variables`,
      'environment-actions': `${e}/actions`,
      'environment-settings': `${e}/settings`,
      task: `/tasks/${held.task_ids[0]}`,
      'task-failed': `/tasks/${broken}`,
      'task-succeeded': `/tasks/${deployed}`,
      servers: '/servers',
      server: `/servers/${serverId}`,
      members: '/org/members',
      organization: '/org/settings',
      audit: '/org/audit',
      account: '/account',
      tokens: '/account/tokens',
      admin: '/admin',
      device: '/device',
      'not-found': '/environments/999999',
    },
    async close() {
      go()
      await platform.settled(held.task_ids[0] ?? 0)
      await platform.close()
    },
  }
}
