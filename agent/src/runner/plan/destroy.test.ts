import { readServiceFile } from '@berth/shared/service-file'
import { expect, it } from 'vitest'
import { planDestroy, whySkipped } from './destroy.ts'
import {
  type DockerPlan,
  flattenPlan,
  isAfterSuccess,
  isShielded,
  type ManualPlan,
} from './plan.ts'

const { file } = readServiceFile(`
manual:
  deploy: [make]
  destroy:
    - { name: Drop the database, run: make drop }
    - make clean
  services:
    web: { port: auto, run: exec ./web }
    queue: { run: exec ./queue }
    search: { port: 7700 }
`)
const last = { format: 1, taskId: 812, section: file?.manual } as ManualPlan
const plain = { skipSteps: false, hasRelease: true, hasRoutes: false }
const shown = (plan: ReturnType<typeof planDestroy>) =>
  plan.phases.flatMap(({ name, steps }) => steps.map(({ id, title }) => `${name}/${id}: ${title}`))

it('runs the steps of the last file, then stops, then removes', () => {
  expect(shown(planDestroy(last, plain))).toEqual([
    'run/1: Drop the database',
    'run/2: make clean',
    'cleanup/stop: Stop web, queue',
    'cleanup/remove: Remove files and account',
  ])
})

it('takes nothing back: no step of a removal has an undo', () => {
  expect(flattenPlan(planDestroy(last, plain)).flatMap(({ undo }) => undo)).toEqual([])
})

it('has only the certain part where nothing was ever deployed', () => {
  expect(shown(planDestroy(undefined, plain))).toEqual([
    'cleanup/stop: Stop what still runs',
    'cleanup/remove: Remove files and account',
  ])
  expect(whySkipped(undefined, { skipSteps: true, hasRelease: false })).toBeUndefined()
})

it.each([
  ['asked', { skipSteps: true, hasRelease: true }],
  ['asked', { skipSteps: true, hasRelease: false }],
  ['release_gone', { skipSteps: false, hasRelease: false }],
] as const)('leaves the repository’s steps out: %s', (why, asked) => {
  expect(whySkipped(last, asked)).toBe(why)
  expect(
    flattenPlan(planDestroy(last, { ...asked, hasRoutes: false })).map(({ id }) => id),
  ).toEqual(['stop', 'remove'])
})

it('takes the routes of the docker recipe away first', () => {
  const docker = { format: 2, taskId: 9, services: [{ service: 'web' }] } as DockerPlan
  expect(shown(planDestroy(docker, { ...plain, hasRoutes: true }))).toEqual([
    'route/unroute: Remove its routes',
    'cleanup/stop: Stop web',
    'cleanup/remove: Remove files and account',
  ])
})

it('skips nothing where the file names no steps', () => {
  const bare = { ...last, section: { ...last.section, destroy: [] } }
  expect(whySkipped(bare, { skipSteps: true, hasRelease: true })).toBeUndefined()
})

it('may be canceled until it begins to take things away; from there every failure counts', () => {
  const phases = ['run', 'cleanup'] as const
  expect(phases.filter((phase) => isShielded('destroy', phase))).toEqual(['cleanup'])
  expect(phases.filter((phase) => isAfterSuccess('destroy', phase))).toEqual([])
})
