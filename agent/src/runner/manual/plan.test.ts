import { type ManualSection, readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { flattenPlan, isAfterSuccess, isShielded, type LastPlan } from '../plan/plan.ts'
import { planCheckout, planManual, replacementOf } from './plan.ts'

function section(yaml: string): ManualSection {
  const { file, problems } = readServiceFile(yaml)
  if (!file?.manual) throw new Error(JSON.stringify(problems))
  return file.manual
}

const whole = section(`
manual:
  deploy:
    - npm ci
    - { name: Build, run: npm run build }
  services:
    web: { port: auto, run: exec node server.js }
    queue: { run: exec node queue.js }
    api: { port: auto, run: exec node api.js, domain: api.example.com }
    fixed: { port: 3000, run: exec node fixed.js, path: /fixed }
    search: { port: 7700, path: /search }
    assets: { root: public, path: /assets }
`)

const ids = (plan: ReturnType<typeof planManual>) => flattenPlan(plan).map(({ id }) => id)

describe('the manual plan', () => {
  it('has its phases and steps in their order', () => {
    const plan = planManual(whole, undefined)
    expect(plan.phases.map(({ name, title }) => `${name}: ${title}`)).toEqual([
      'checkout: Check out',
      'configure: Configure',
      'run: Run',
      'start: Start',
      'route: Route',
      'verify: Verify',
      'cleanup: Clean up',
    ])
    expect(ids(plan)).toEqual([
      ...['admit', 'account', 'fetch', 'unpack'],
      ...['read-config', 'claim-hosts', 'ports', 'variables', '1', '2'],
      ...['start:web', 'start:api', 'health:web', 'health:api'],
      ...['start:queue', 'health:queue', 'start:fixed', 'health:fixed'],
      ...['activate', 'health:search', 'static:assets', 'switch'],
      ...[
        'verify:web',
        'verify:queue',
        'verify:api',
        'verify:fixed',
        'verify:search',
        'verify:assets',
      ],
      ...['drain', 'stop-old', 'collect'],
    ])
  })

  it('looks for files of the running version and links the shared ones before the commands', () => {
    const shared = section('manual: { deploy: [x], shared: [a] }')
    const last = { format: 1, section: shared, taskId: 1 } as LastPlan
    const run = (
      asked?: { fresh: boolean; reused: boolean },
      before: LastPlan | undefined = last,
    ) =>
      planManual(shared, before, asked)
        .phases.find(({ name }) => name === 'run')
        ?.steps.map(({ id }) => id)
    expect(run()).toEqual(['written-files', 'share', '1'])
    expect(run({ fresh: false, reused: true })).toEqual(['written-files', 'share'])
    expect(run({ fresh: true, reused: false })).toEqual(['reset', 'share', '1'])
    expect(planManual(shared, undefined).phases[2]?.steps.map(({ id }) => id)).toEqual([
      'share',
      '1',
    ])
  })

  it('begins with exactly the steps that were published before the file was read', () => {
    const before = flattenPlan(planCheckout())
    expect(flattenPlan(planManual(whole, undefined)).slice(0, before.length)).toEqual(before)
  })

  it('has no empty phase and no id twice', () => {
    const plan = planManual(section('manual: { deploy: [make] }'), undefined)
    expect(plan.phases.map(({ name }) => name)).toEqual([
      'checkout',
      'configure',
      'run',
      'route',
      'cleanup',
    ])
    expect(new Set(ids(plan)).size).toBe(ids(plan).length)
  })

  it('titles a command by its name, else by itself', () => {
    const titles = flattenPlan(planManual(whole, undefined)).map(({ title }) => title)
    expect(titles).toContain('npm ci')
    expect(titles).toContain('Build')
  })

  it('knows what each step may have made', () => {
    const made = flattenPlan(planManual(whole, undefined)).filter(({ undo }) => undo.length > 0)
    expect(made.map(({ id, undo }) => [id, undo.map(({ kind }) => kind).join()])).toEqual([
      ['unpack', 'release'],
      ['claim-hosts', 'pages'],
      ['ports', 'ports'],
      ['variables', 'variables'],
      ['1', 'current'],
      ['2', 'current'],
      ['start:web', 'process'],
      ['start:api', 'process'],
      ['start:queue', 'process'],
      ['start:fixed', 'process'],
      ['activate', 'current'],
      ['static:assets', 'static'],
      ['switch', 'routes'],
    ])
  })

  it('says which deployment will be stopped', () => {
    const last = { format: 1, taskId: 811, section: whole } as LastPlan
    const step = flattenPlan(planManual(whole, last)).find(({ id }) => id === 'stop-old')
    expect(step?.title).toBe('Stop web, queue, api, fixed of deployment 811')
  })

  it('resets first of all, once nothing cheap can fail any more', () => {
    const last = { format: 1, taskId: 811, section: whole } as LastPlan
    const steps = flattenPlan(planManual(whole, last, { fresh: true, reused: false }))
    const at = steps.findIndex(({ id }) => id === 'reset')
    expect(steps.slice(at - 1, at + 2).map(({ id }) => id)).toEqual(['variables', 'reset', '1'])
    expect(steps[at]?.undo).toEqual([])
    const title = steps.find(({ id }) => id === 'stop-old')?.title
    expect(title).toBe('Stop the version before')
    expect(ids(planManual(whole, last))).not.toContain('reset')
  })

  it('overlaps automatic ports only', () => {
    const how = Object.fromEntries(whole.services.map((s) => [s.name, replacementOf(s)]))
    expect(how).toMatchObject({ web: 'beside', api: 'beside', queue: 'after', fixed: 'after' })
  })

  it('stays below the bound of the wire with the largest file', () => {
    const services = Array.from({ length: 20 }, (_, i) => `    s${i}: { port: auto, run: x }`)
    const yaml = `manual:\n  deploy: [${Array(50).fill('a').join(', ')}]\n  services:\n${services.join('\n')}\n`
    expect(ids(planManual(section(yaml), undefined)).length).toBeLessThanOrEqual(200)
  })
})

it('shields activation and proof, and lets nothing fail afterwards', () => {
  const phases = ['checkout', 'configure', 'run', 'start', 'route', 'verify', 'cleanup'] as const
  expect(phases.filter((phase) => isShielded('deploy', phase))).toEqual(['route', 'verify'])
  expect(phases.filter((phase) => isAfterSuccess('deploy', phase))).toEqual(['cleanup'])
})
