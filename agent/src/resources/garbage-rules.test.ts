// The table of what is kept, row by row.
import { expect, test } from 'vitest'
import type { DockerPlan } from '../runner/plan/plan.ts'
import { type CollectionFacts, decideCollection, type Owned } from './garbage-rules.ts'

const DAY = 86_400_000
const BOUNDS = { images: 3, unnamedVolumeMs: 7 * DAY }

const plan = (taskId: number, more: Partial<DockerPlan> = {}): DockerPlan => ({
  format: 2,
  taskId,
  commit: 'c',
  actions: [],
  section: { services: [], volumes: [] },
  services: [
    {
      service: 'web',
      taskId,
      containerId: `id-${taskId}`,
      container: `web-${taskId}`,
      imageId: `sha256:${taskId}`,
      image: `berth/e1-web:${taskId}`,
      digest: '',
      spec: '',
    },
  ],
  routes: [],
  ...more,
})

const row = (kind: Owned['kind'], name: string, more: Partial<Owned> = {}): Owned => ({
  kind,
  name,
  taskId: 1,
  attemptId: 'over',
  service: 'web',
  state: 'serving',
  facts: {},
  ...more,
})
const image = (taskId: number, more: Partial<Owned> = {}): Owned =>
  row('image', `berth/e1-web:${taskId}`, {
    taskId,
    state: 'kept',
    facts: { imageId: `sha256:${taskId}` },
    ...more,
  })

const decide = (rows: Owned[], more: Partial<CollectionFacts<Owned>> = {}) => {
  const facts = { rows, plan: plan(9), namedVolumes: new Set<string>(), ownAttempt: undefined }
  const { remove, ...rest } = decideCollection({ ...facts, now: 10 * DAY, ...more }, BOUNDS)
  return { remove: remove.map(({ name }) => name), ...rest }
}

test('containers: those of the running version stay, whatever their row says', () => {
  const states = ['making', 'serving', 'paused', 'retired'] as const
  const rows = states.map((state, n) => row('container', `web-${6 + n}`, { state }))
  expect(decide(rows).remove).toEqual(['web-6', 'web-7', 'web-8'])
})

test('containers without a plan: what serves goes on, what was being made or replaced goes', () => {
  const states = ['making', 'serving', 'retired'] as const
  const rows = states.map((state) => row('container', state, { state }))
  expect(decide(rows, { plan: null }).remove).toEqual(['making', 'retired'])
})

test('containers: a first start stays until the next deployment succeeds', () => {
  const facts = { isFirstStart: true }
  const rows = [
    row('container', 'db-8', { taskId: 8, facts }),
    row('container', 'db-10', { taskId: 10, facts }),
  ]
  expect(decide(rows).remove).toEqual(['db-8'])
})

test('what the asking deployment is making is its own business', () => {
  const rows = [row('container', 'release', { state: 'making', attemptId: 'mine' })]
  expect(decide(rows, { ownAttempt: 'mine' }).remove).toEqual([])
  expect(decide(rows, { ownAttempt: 'other' }).remove).toEqual(['release'])
})

test('images: the running one and two before it; a failed one is not one of them', () => {
  const rows = [5, 6, 7, 8, 9].map((n) => image(n, n === 9 ? { state: 'making' } : {}))
  const failed = image(10, { state: 'making' })
  const { remove, mark } = decide([...rows, failed])
  expect(remove).toEqual(['berth/e1-web:5', 'berth/e1-web:6', 'berth/e1-web:10'])
  expect(mark.map(({ row: { taskId }, state }) => [taskId, state])).toEqual([[9, 'serving']])
})

test('images: after a rollback the running one is the old one, and newer ones are before it too', () => {
  const services = [
    { ...(plan(9).services[0] as DockerPlan['services'][0]), image: '', imageId: 'sha256:6' },
  ]
  const rows = [5, 6, 7, 8].map((n) => image(n))
  expect(decide(rows, { plan: plan(9, { services }) }).remove).toEqual(['berth/e1-web:5'])
})

test('images: two names of one image count once', () => {
  const again = image(8, { facts: { imageId: 'sha256:9' } })
  const rows = [image(5), image(6), image(7), again, image(9)]
  expect(decide(rows).remove).toEqual(['berth/e1-web:5'])
})

test('pulled images go when the running version does not use them', () => {
  const rows = [
    row('pulled', 'postgres:18', { service: '' }),
    row('pulled', 'redis', { service: '', facts: { imageId: 'sha256:9' } }),
  ]
  expect(decide(rows).remove).toEqual(['postgres:18'])
})

test('network and volumes live as long as the environment', () => {
  const network = row('network', 'berth-e1', { state: 'making' })
  expect(decide([network]).remove).toEqual([])
  expect(decide([network]).mark.map(({ state }) => state)).toEqual(['serving'])
  expect(decide([network], { plan: null }).remove).toEqual(['berth-e1'])
  const volume = row('volume', 'berth-e1-data', { state: 'making' })
  expect(decide([volume], { plan: null }).remove).toEqual([])
})

test('a volume that is no longer named is flagged, kept a week, and comes back when it is named again', () => {
  const volume = row('volume', 'data')
  expect(decide([volume])).toMatchObject({ remove: [], flag: [volume] })
  const young = row('volume', 'data', { facts: { unnamedSince: 3 * DAY + 1 } })
  expect(decide([young])).toMatchObject({ remove: [], flag: [], unflag: [] })
  const old = row('volume', 'data', { facts: { unnamedSince: 3 * DAY } })
  expect(decide([old]).remove).toEqual(['data'])
  const named = decide([old], { namedVolumes: new Set(['data']) })
  expect(named).toMatchObject({ remove: [], unflag: [old] })
})
