// An installation with something of everything, for the pictures and for the checks that look at every page: people,
// projects, environments in each state, a deployment that runs until it is let go, one that failed, waiting pull requests.
import { statfsSync } from 'node:fs'
import { totalmem } from 'node:os'
import type { Environment, Task } from '@berth/shared/rest'
import { HostUsageSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { recordUsage } from '../control-plane/src/app/facts.ts'
import { type Host, makeHost, sha } from './host.ts'
import { PASSWORD, person } from './people.ts'
import { Platform } from './platform.ts'
import { playDeployment, writeServiceLogs } from './played-deployment.ts'

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
  /** The server's word of now, whatever it said itself meanwhile. */
  measure(): Promise<void>
  close(): Promise<void>
}

export const ADA = { email: 'ada@example.com', password: PASSWORD }
export const GRACE = { email: 'grace@example.com', password: PASSWORD }

/** As a heartbeat would tell it, a number of minutes ago: a quiet night, a busy afternoon, a disk that fills slowly. */
async function plantUsage(platform: Platform, environments: Environment[], minute: number) {
  const { ctx } = platform.cp.running
  const at = ctx.clock.now() - minute * 60_000
  const { blocks, bsize } = statfsSync('/')
  const [memory, disk] = [totalmem(), blocks * bsize]
  const part = (of: number, share: number): bigint => BigInt(Math.round(of * share))
  const busy = 0.5 + 0.5 * Math.sin((minute / 1_440) * 2 * Math.PI)
  const flutter = Math.sin(minute / 13) * Math.sin(minute / 41)
  const usage = create(HostUsageSchema, {
    at: timestampFromMs(at),
    cpuPermille: Math.round(140 + 380 * busy + 220 * Math.abs(flutter)),
    loadHundredths: Math.round(60 + 90 * busy),
    memoryUsedBytes: part(memory, 0.34 + 0.2 * busy + 0.03 * flutter),
    memoryBytes: BigInt(memory),
    diskUsedBytes: part(disk, 0.58 - minute / 9_000),
    diskBytes: BigInt(disk),
    environments: environments.map(({ id }, n) => ({
      environmentId: id,
      diskBytes: BigInt(1_900_000_000 - n * 640_000_000),
      memoryBytes: BigInt(412_000_000 - n * 97_000_000),
      cpuPermille: 90 - n * 38,
    })),
  })
  const health = { dockerOk: true, proxyOk: true }
  await recordUsage({ ...ctx, clock: { now: () => at } }, platform.serverId, usage, health)
}

export interface WorldOptions {
  /** How long steps of deployments take. */
  pace?: number
  /** How long the server has been telling how busy it is. */
  minutes?: number
}

export async function makeWorld({ pace = 0, minutes = 90 }: WorldOptions = {}): Promise<World> {
  const platform = await Platform.start('sqlite', { password: PASSWORD })
  const { cp, serverId } = platform
  const { promise: letGo, resolve: go } = Promise.withResolvers<void>()
  platform.executor.hasPlans = true
  platform.executor.script = (attempt) => playDeployment(attempt, platform.agentDir, letGo, pace)
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
  const exported = await cp.make<Task>(
    `/api/environments/${staging.id}/actions/export-orders/tasks`,
  )
  await platform.settled(exported.id)
  writeServiceLogs(platform.agentDir, staging.id)
  const measure = (minute: number) => plantUsage(platform, [staging, demo], minute)
  for (let minute = minutes; minute > 0; minute--) await measure(minute)
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
    measure: () => measure(0),
    async close() {
      go()
      await platform.settled(held.task_ids[0] ?? 0)
      await platform.close()
    },
  }
}
