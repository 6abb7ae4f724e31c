// A small run of `npm run chaos` at every commit, and the proof that it would notice a violation.
import { expect, test } from 'vitest'
import { isRunLate } from '../fixtures/platform/run-time.ts'
import { BREAKS, countViolations, runChaos } from './run.ts'

const few = { kills: 3, pauses: 0, environments: 2, seed: 7, say: () => {} }
const bound = 300_000
const isLate = isRunLate()

test.skipIf(isLate)(
  'the control plane is killed: nothing lost, nothing started twice, logs byte for byte, each deployment told once and in order',
  async () => {
    const verdict = await runChaos({ ...few, what: 'control-plane' })
    expect(verdict.details).toEqual([])
    expect(verdict.identical).toBe(verdict.tasks)
    expect(verdict.notices.notified).toBe(verdict.tasks)
  },
  bound,
)

test.skipIf(isLate)(
  'the daemon is killed: the same',
  async () => {
    const verdict = await runChaos({ ...few, what: 'agent' })
    expect(verdict.details).toEqual([])
    expect(verdict.identical).toBe(verdict.tasks)
  },
  bound,
)

test.skipIf(isLate)(
  'a build that acknowledges a deployment and forgets it is caught',
  async () => {
    const build = BREAKS['forgets-deployments'] ?? {}
    const verdict = await runChaos({ ...few, kills: 1, what: 'control-plane', build })
    expect(countViolations(verdict)).toBeGreaterThan(0)
  },
  bound,
)

test.skipIf(isLate)(
  'a build that forgets notifications is caught',
  async () => {
    const build = BREAKS['forgets-notices'] ?? {}
    const verdict = await runChaos({ ...few, kills: 2, what: 'control-plane', build })
    expect(verdict.notices.missing).toBeGreaterThan(0)
  },
  bound,
)
