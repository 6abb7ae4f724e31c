import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { STEPS } from '@berth/shared'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Ledger, type ProcessRow } from './ledger.ts'

let dir: string
let ledger: Ledger
const free = () => true

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-ledger-'))
  ledger = new Ledger({ stateDir: dir })
})
afterEach(() => {
  ledger.close()
  rmSync(dir, { recursive: true })
})

describe('ports', () => {
  it('are chosen once for an environment and a service', () => {
    const first = ledger.reservePorts(1, 'web', 2, free, undefined)
    expect(first).toEqual([STEPS.portFrom, STEPS.portFrom + 1])
    expect(ledger.reservePorts(1, 'web', 2, free, undefined)).toEqual(first)
    expect(ledger.reservePorts(1, 'api', 1, free, undefined)).toEqual([STEPS.portFrom + 2])
    expect(ledger.reservePorts(2, 'web', 1, free, undefined)).toEqual([STEPS.portFrom + 3])
  })

  it('skip what somebody else listens on', () => {
    const isFree = (port: number) => port >= STEPS.portFrom + 5
    expect(ledger.reservePorts(1, 'web', 1, isFree, undefined)).toEqual([STEPS.portFrom + 5])
  })

  it('replace a kept port that was taken meanwhile, but never the one that serves', () => {
    const [a, b] = ledger.reservePorts(1, 'web', 2, free, undefined) as [number, number]
    const isFree = (port: number) => port !== a && port !== b
    const again = ledger.reservePorts(1, 'web', 2, isFree, a)
    expect(again[0]).toBe(a)
    expect(again[1]).toBe(STEPS.portFrom + 2)
  })

  it('in the file belong to one environment, and are chosen for no other', () => {
    const taken = STEPS.portFrom
    expect(ledger.holdPorts(1, [3_000, taken])).toBeUndefined()
    expect(ledger.holdPorts(1, [taken, 3_000])).toBeUndefined()
    expect(ledger.holdPorts(2, [8_080, 3_000])).toEqual({ port: 3_000, environmentId: 1 })
    expect(ledger.reservePorts(2, 'web', 1, free, undefined)).toEqual([taken + 1])
    expect(ledger.holdPorts(1, [taken + 1])).toEqual({ port: taken + 1, environmentId: 2 })
    ledger.holdPorts(1, [])
    expect(ledger.listHeldPorts()).toEqual([{ port: taken + 1, environmentId: 2 }])
  })

  it('of the version that runs stay its own, whatever an attempt wanted', () => {
    const body = JSON.stringify({ format: 1, ports: { web: 3_000 } })
    ledger.saveSuccess({ environmentId: 1, taskId: 1, fence: 1n, commit: 'c', body })
    ledger.holdPorts(1, [])
    expect(ledger.holdPorts(2, [3_000])).toEqual({ port: 3_000, environmentId: 1 })
    ledger.forget(1)
    expect(ledger.holdPorts(2, [3_000])).toBeUndefined()
  })

  it('say when there is none', () => {
    expect(() => ledger.reservePorts(1, 'web', 1, () => false, undefined)).toThrow(/No port/)
  })
})

const row = (change: Partial<ProcessRow>): ProcessRow => ({
  environmentId: 1,
  service: 'web',
  taskId: 1,
  attemptId: 'a',
  state: 'starting',
  port: 20_000,
  instructions: '{}',
  ...change,
})

describe('processes', () => {
  it('become the running version together with the plan; the others retire', () => {
    ledger.putProcess(row({ taskId: 1, state: 'serving' }))
    ledger.putProcess(row({ taskId: 2, state: 'starting' }))
    ledger.putProcess(row({ environmentId: 2, taskId: 1, state: 'serving' }))
    const plan = { environmentId: 1, taskId: 2, fence: 2n ** 60n, commit: 'c', body: '{"x":1}' }
    ledger.saveSuccess(plan)
    expect(ledger.listProcesses(1).map(({ taskId, state }) => [taskId, state])).toEqual([
      [1, 'retired'],
      [2, 'serving'],
    ])
    expect(ledger.listProcesses(2)[0]?.state).toBe('serving')
    expect(ledger.findPlan(1)).toEqual(plan)
    expect(ledger.findPlan(2)).toBeUndefined()
  })

  it('are seen by another process of the agent, and survive it', () => {
    ledger.putProcess(row({ port: undefined }))
    const other = new Ledger({ stateDir: dir })
    expect(other.listProcesses()).toEqual([row({ port: undefined })])
    other.setProcessState(row({}), 'paused', 'b')
    other.close()
    expect(ledger.listProcesses(1)[0]).toMatchObject({ state: 'paused', attemptId: 'b' })
    ledger.removeProcess(row({}))
    expect(ledger.listProcesses()).toEqual([])
  })

  it('of a version that is over are to be stopped, and its plan and ports go last', () => {
    const plan = { environmentId: 1, taskId: 1, fence: 1n, commit: 'c', body: '{}' }
    const ports = ledger.reservePorts(1, 'web', 1, free, undefined)
    ledger.putProcess(row({}))
    ledger.putProcess(row({ environmentId: 2, port: undefined }))
    ledger.saveSuccess(plan)
    ledger.saveSuccess({ ...plan, environmentId: 2 })
    ledger.endVersion(1)
    expect(ledger.findPlan(1)).toBeUndefined()
    expect(ledger.listProcesses(1).map(({ state }) => state)).toEqual(['retired'])
    expect(ledger.reservePorts(1, 'web', 1, free, undefined)).toEqual(ports)
    ledger.forget(1)
    expect(ledger.listProcesses(1)).toEqual([])
    expect(ledger.reservePorts(3, 'web', 1, free, undefined)).toEqual(ports)
    expect(ledger.findPlan(2)).toBeDefined()
    expect(ledger.listProcesses(2).map(({ state }) => state)).toEqual(['serving'])
  })
})
