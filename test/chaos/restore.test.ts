// One round of `npm run chaos -- restore` on each database, and the proof that it would notice a violation.
import { expect, test } from 'vitest'
import { missing } from '../fixtures/platform/components.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { isRunLate } from '../fixtures/platform/run-time.ts'
import { countBad, runRestore } from './restore.ts'
import { BREAKS } from './run.ts'

const once = { rounds: 1, servers: 2, seed: 11, say: () => {} }
const bound = 600_000
const isLate = isRunLate()

test.skipIf(missing('caddy') || isLate).each(ENGINES)(
  'restored on %s: every server is back, no task is stuck, everybody was served',
  async (engine) => {
    const rounds = await runRestore({ ...once, engines: [engine] })
    expect(rounds.flatMap((r) => r.details)).toEqual([])
    expect([rounds.length, countBad(rounds)]).toEqual([1, 0])
    expect(rounds.every((r) => r.asked > 0)).toBe(true)
  },
  bound,
)

test.skipIf(missing('caddy') || isLate)(
  'a build that locks servers out after a restore is caught',
  async () => {
    const build = BREAKS['forgets-unknown-attempts'] ?? {}
    const plan = { ...once, servers: 1, backMs: 20_000, build }
    const rounds = await runRestore({ ...plan, engines: ['sqlite'] })
    expect(countBad(rounds)).toBe(1)
  },
  bound,
)
