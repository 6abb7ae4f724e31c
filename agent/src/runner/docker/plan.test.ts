import { type DockerSection, readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { type DockerPlan, flattenPlan, type Plan } from '../plan/plan.ts'
import { inRanks, planDocker, planDockerCheckout, releaseDependencies } from './plan.ts'

function dockerSection(yaml: string): DockerSection {
  const { file, problems } = readServiceFile(yaml)
  if (!file?.docker) throw new Error(JSON.stringify(problems))
  return file.docker
}

const whole = dockerSection(`
docker:
  volumes: [data]
  services:
    web: { build: ., port: 3000, depends_on: [db, cache], release: node migrate.js }
    queue: { build: ., command: node queue.js, depends_on: [db] }
    db: { image: 'postgres:18', volumes: ['data:/var/lib/postgresql'] }
    cache: { image: 'redis:8', depends_on: [db] }
    mail: { image: 'mailpit:1', port: 8025, path: /mail }
`)

const ids = (plan: Plan) => flattenPlan(plan).map(({ id }) => id)

describe('the docker plan', () => {
  it('has its phases and steps in their order', () => {
    const plan = planDocker(whole, undefined)
    expect(plan.phases.map(({ name }) => name)).toEqual([
      ...['checkout', 'configure', 'build', 'release', 'start', 'route', 'verify', 'cleanup'],
    ])
    expect(ids(plan)).toEqual([
      ...['admit', 'fetch', 'unpack', 'read-config', 'claim-hosts', 'variables'],
      ...['build:web', 'build:queue', 'pull:db', 'pull:cache', 'pull:mail'],
      ...['dependency:db', 'dependency:cache', 'release:web'],
      ...['network', 'start:mail', 'health:mail'],
      ...['start:queue', 'health:queue', 'start:web', 'health:web'],
      'switch',
      ...['verify:web', 'verify:queue', 'verify:db', 'verify:cache', 'verify:mail'],
      ...['drain', 'stop-old', 'collect'],
    ])
  })

  it('begins with exactly the steps that were published before the file was read', () => {
    const before = flattenPlan(planDockerCheckout())
    expect(flattenPlan(planDocker(whole, undefined)).slice(0, before.length)).toEqual(before)
  })

  it('leaves out the phase release when nothing asks for it, and resets at its beginning', () => {
    const plain = dockerSection('docker: { services: { web: { build: ., port: 80 } } }')
    expect(planDocker(plain, undefined).phases.map(({ name }) => name)).not.toContain('release')
    const fresh = planDocker(plain, undefined, { fresh: true })
    expect(fresh.phases.find(({ name }) => name === 'release')?.steps.map(({ id }) => id)).toEqual([
      'reset',
    ])
  })

  it('runs the command of a dependency before that dependency comes up', () => {
    const chain = dockerSection(`
docker:
  services:
    web: { build: ., port: 80, depends_on: [api], release: b }
    api: { build: ., depends_on: [db], release: a }
    db: { image: 'postgres:18' }
`)
    expect([...releaseDependencies(chain.services)].sort()).toEqual(['api', 'db'])
    const steps = planDocker(chain, undefined).phases.find(({ name }) => name === 'release')?.steps
    expect(steps?.map(({ id }) => id)).toEqual([
      ...['dependency:db', 'release:api', 'dependency:api', 'release:web'],
    ])
  })

  it('puts services that do not need each other into one rank', () => {
    expect(inRanks(whole.services).map((rank) => rank.map(({ name }) => name))).toEqual([
      ['db', 'mail'],
      ['queue', 'cache'],
      ['web'],
    ])
  })

  it('takes back containers, routes and pages; what follows success takes nothing back', () => {
    const undo = Object.fromEntries(
      flattenPlan(planDocker(whole, undefined)).map((step) => [
        step.id,
        step.undo.map(({ kind }) => kind),
      ]),
    )
    expect(undo).toMatchObject({
      'claim-hosts': ['pages'],
      variables: ['variables'],
      'build:web': ['images'],
      'dependency:db': ['containers'],
      'release:web': ['containers'],
      'start:web': ['containers'],
      switch: ['routes'],
      'verify:web': [],
      'stop-old': [],
    })
  })

  it('names the version that goes', () => {
    const last = { format: 2, taskId: 811 } as DockerPlan
    const title = (plan: Plan) => flattenPlan(plan).find(({ id }) => id === 'stop-old')?.title
    expect(title(planDocker(whole, last))).toBe('Stop what deployment 811 left')
    expect(title(planDocker(whole, last, { fresh: true }))).toBe('Stop the version before')
  })
})
