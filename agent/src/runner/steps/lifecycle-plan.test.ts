import { readServiceFile } from '@berth/shared/service-file'
import { expect, test } from 'vitest'
import type { LastPlan } from '../plan/plan.ts'
import { managedServices, planLifecycle } from './lifecycle-plan.ts'

function lastOf(yaml: string): LastPlan {
  const { file } = readServiceFile(Buffer.from(yaml))
  const common = { taskId: 7, commit: 'c', actions: [] }
  if (file?.docker) return { ...common, format: 2, section: file.docker, services: [], routes: [] }
  if (file?.manual) return { ...common, format: 1, section: file.manual, ports: {} }
  throw new Error('not a file')
}

const DOCKER = lastOf(`docker:
  services:
    web: { image: web, port: 80, depends_on: [db] }
    db: { image: db }
`)
const MANUAL = lastOf(`manual:
  deploy: ['true']
  services:
    app: { port: auto, run: ./app }
    old: { port: 3000 }
    files: { root: public, path: /files }
`)

const idsOf = (...args: Parameters<typeof planLifecycle>): string[] =>
  planLifecycle(...args).phases.flatMap(({ steps }) => steps.map(({ id }) => id))

test('dependencies start first and stop last', () => {
  expect(idsOf(DOCKER, 'start', '')).toEqual(['start:db', 'start:web'])
  expect(idsOf(DOCKER, 'restart', '')).toEqual(['restart:db', 'restart:web'])
  expect(idsOf(DOCKER, 'stop', '')).toEqual(['stop:web', 'stop:db'])
  expect(idsOf(DOCKER, 'stop', 'db')).toEqual(['stop:db'])
})

test('a service without run is not ours; a folder of files is', () => {
  expect(managedServices(MANUAL)).toEqual(['app', 'files'])
  expect(idsOf(MANUAL, 'stop', '')).toEqual(['stop:files', 'stop:app'])
})

test('what is not there keeps one step, which reports it', () => {
  expect(idsOf(MANUAL, 'stop', 'old')).toEqual(['stop:old'])
  expect(idsOf(DOCKER, 'stop', 'api')).toEqual(['stop:api'])
  expect(idsOf(null, 'start', '')).toEqual(['start'])
})
