// Short runs of the fuzzers with fixed seeds; `npm run fuzz` has the long ones. Each must catch a build that is broken
// on purpose.
import { describe, expect, test } from 'vitest'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { fuzzApi } from './api.ts'
import { fuzzServiceFile } from './service-file.ts'

const lines: string[] = []
const say = (line: string): void => void lines.push(line)

describe('the API under drawn and damaged requests', () => {
  test.each(ENGINES)(
    'no fault, nothing outside the document, no write by GET: %s',
    async (engine) => {
      const counts = await fuzzApi({
        requests: 800,
        seed: 20_261_115,
        engine,
        planted: false,
        say,
      })
      expect(lines).toEqual([])
      expect(counts).toMatchObject({ faults: 0, outside: 0, writesByGet: 0 })
      expect(counts.accepted).toBeGreaterThan(100)
      expect(counts.fewest).toBeGreaterThan(0)
    },
  )

  test('a planted fault, an undocumented field and a write by GET are each caught', async () => {
    const asked = { requests: 800, seed: 1, engine: 'sqlite', planted: true, say } as const
    const counts = await fuzzApi(asked)
    expect(counts.faults).toBeGreaterThan(0)
    expect(counts.outside).toBeGreaterThan(0)
    expect(counts.writesByGet).toBeGreaterThan(0)
  })
})

describe('the parser of .service.yml under damaged files', () => {
  test('answers every one', () => {
    const counts = fuzzServiceFile({ inputs: 2_000, seed: 1, planted: false, say })
    expect(counts).toMatchObject({ crashes: 0, slow: 0 })
    expect(counts.valid).toBeGreaterThan(20)
  })

  test('a planted crash and a planted slowness are caught', () => {
    const counts = fuzzServiceFile({ inputs: 600, seed: 1, planted: true, boundMs: 500, say })
    expect(counts.crashes).toBeGreaterThan(0)
    expect(counts.slow).toBeGreaterThan(0)
  })
})
