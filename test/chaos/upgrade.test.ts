// A short run of `npm run chaos -- upgrade`: two servers, a few deployments.
import { expect, test } from 'vitest'
import { missing } from '../fixtures/platform/components.ts'
import { isRunLate } from '../fixtures/platform/run-time.ts'
import { runUpgrade } from './upgrade.ts'

const isRoot = process.getuid?.() === 0

test.skipIf(missing('caddy') || !isRoot || isRunLate())(
  'upgraded during deployments: none failed, no line was lost, everybody was served',
  async () => {
    const result = await runUpgrade({ servers: 2, deployments: 4, say: () => {} })
    expect(result.failed).toEqual([])
    expect(result.unanswered).toEqual([])
    expect([result.lostLines, result.upgraded]).toEqual([0, 2])
    expect(result.deployments).toBeGreaterThanOrEqual(4)
    expect(result.asked).toBeGreaterThan(0)
    // undefined: it never came back
    expect([typeof result.serverBackMs, typeof result.agentBackMs]).toEqual(['number', 'number'])
  },
  1_200_000,
)
