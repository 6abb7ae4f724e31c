// A short run of the webhook fuzzer with fixed seeds; `npm run fuzz -- webhooks` has the long one.
import { expect, test } from 'vitest'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { fuzzWebhooks } from './webhooks.ts'

const lines: string[] = []
const say = (line: string): void => void lines.push(line)

test.each(ENGINES)(
  'no crash, no fault, nothing unsigned accepted, every one decided: %s',
  async (engine) => {
    const counts = await fuzzWebhooks({
      requests: 300,
      seed: 20_261_115,
      engine,
      planted: false,
      say,
    })
    expect(lines).toEqual([])
    expect(counts).toMatchObject({ crashes: 0, faults: 0, wrong: 0, undecided: 0, requests: 300 })
    expect(counts.understood).toBeGreaterThan(500)
  },
)

test('a parser that throws and an endpoint that faults are caught', async () => {
  const asked = { requests: 40, seed: 1, engine: 'sqlite', planted: true, say } as const
  const counts = await fuzzWebhooks(asked)
  expect(counts.crashes).toBeGreaterThan(0)
  expect(counts.faults).toBeGreaterThan(0)
})
