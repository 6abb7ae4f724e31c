// The ledger's table of objects in the Docker engine: rows outlive the process, follow the running version, and are
// deleted with their environment.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Ledger } from './ledger.ts'
import type { ObjectRow } from './objects.ts'

let dir: string
let ledger: Ledger
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-objects-'))
  ledger = new Ledger({ stateDir: dir })
})
afterEach(() => {
  ledger.close()
  rmSync(dir, { recursive: true })
})

const row = (changes: Partial<ObjectRow>): Omit<ObjectRow, 'at'> => ({
  kind: 'container',
  name: 'berth-e1-web-1',
  environmentId: 1,
  taskId: 1,
  attemptId: 'a1',
  service: 'web',
  state: 'making',
  facts: {},
  ...changes,
})
const plan = (taskId: number) => ({
  environmentId: 1,
  taskId,
  fence: 1n,
  commit: 'c',
  body: '{}',
})
const states = (environmentId = 1) =>
  Object.fromEntries(ledger.objects.list({ environmentId }).map((r) => [r.name, r.state]))

test('a row is there for every process that opens the ledger, with its facts', () => {
  ledger.objects.put(row({ facts: { imageId: 'sha256:1', ports: [3000] } }))
  const other = new Ledger({ stateDir: dir })
  const [found] = other.objects.list()
  other.close()
  expect(found).toMatchObject(row({ facts: { imageId: 'sha256:1', ports: [3000] } }))
  expect(Date.parse(found?.at ?? '')).toBeGreaterThan(0)
})

test('rows are found by environment, kind and task, oldest deployment first', () => {
  const { objects } = ledger
  objects.put(row({ name: 'c2', taskId: 2 }))
  objects.put(row({ name: 'c1' }))
  objects.put(row({ kind: 'image', name: 'i1' }))
  objects.put(row({ name: 'other', environmentId: 2 }))
  const names = (filter: Parameters<typeof objects.list>[0]) =>
    objects.list(filter).map(({ name }) => name)
  expect(names({ environmentId: 1 })).toEqual(['c1', 'i1', 'c2'])
  expect(names({ environmentId: 1, kind: 'container' })).toEqual(['c1', 'c2'])
  expect(names({ taskId: 2 })).toEqual(['c2'])
  expect(names({ environmentId: 3 })).toEqual([])
})

test('one pulled image may belong to several environments', () => {
  const pulled = { kind: 'pulled', name: 'postgres:18' } as const
  ledger.objects.put(row(pulled))
  ledger.objects.put(row({ ...pulled, environmentId: 2 }))
  ledger.objects.remove({ ...pulled, environmentId: 1 })
  expect(ledger.objects.list({ kind: 'pulled' })).toMatchObject([{ environmentId: 2 }])
})

test('a state changes with or without the attempt that wants it', () => {
  ledger.objects.put(row({}))
  const key = { kind: 'container', name: 'berth-e1-web-1', environmentId: 1 } as const
  ledger.objects.setState(key, 'paused', 'a2')
  expect(ledger.objects.list()).toMatchObject([{ state: 'paused', attemptId: 'a2' }])
  ledger.objects.setState(key, 'serving')
  expect(ledger.objects.list()).toMatchObject([{ state: 'serving', attemptId: 'a2' }])
})

test('subnets that were given away are known before their networks are', () => {
  ledger.objects.put(row({ kind: 'network', name: 'n1', facts: { subnet: '10.214.0.0/26' } }))
  ledger.objects.put(row({ kind: 'network', name: 'n2', facts: {} }))
  ledger.objects.put(row({ kind: 'volume', name: 'v', facts: { subnet: 'no' } }))
  expect(ledger.objects.takenSubnets()).toEqual(['10.214.0.0/26'])
})

test('the version that succeeded serves, what it did not keep retires, other kinds stay', () => {
  const { objects } = ledger
  objects.put(row({ name: 'web-1', state: 'serving' }))
  objects.put(row({ name: 'db-1', state: 'serving', service: 'db' }))
  objects.put(row({ name: 'web-2', taskId: 2 }))
  objects.put(row({ kind: 'image', name: 'image', state: 'kept' }))
  objects.put(row({ kind: 'image', name: 'own', attemptId: 'a9' }))
  objects.put(row({ name: 'foreign', environmentId: 2, state: 'serving' }))
  ledger.saveSuccess(plan(2), ['web-2', 'db-1'], 'a9')
  expect(states()).toEqual({
    'web-1': 'retired',
    'db-1': 'serving',
    'web-2': 'serving',
    image: 'kept',
    own: 'serving',
  })
  ledger.endVersion(1)
  expect(states()).toMatchObject({ 'db-1': 'retired', 'web-2': 'retired', image: 'kept' })
  expect(states(2)).toEqual({ foreign: 'serving' })
})

test('a manual version that succeeded leaves no container serving', () => {
  ledger.objects.put(row({ name: 'web-1', state: 'serving' }))
  ledger.saveSuccess(plan(2))
  expect(states()).toEqual({ 'web-1': 'retired' })
})

test('an environment that is forgotten leaves no row', () => {
  ledger.objects.put(row({}))
  ledger.objects.put(row({ environmentId: 2 }))
  ledger.forget(1)
  expect(ledger.objects.list()).toMatchObject([{ environmentId: 2 }])
  ledger.objects.forget(2)
  expect(ledger.objects.list()).toEqual([])
})
