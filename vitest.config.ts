import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Minutes long and mostly waiting: begun last, they would run alone at the end. */
const LONG = /\/test\/(?:attack|chaos)\/|\/dev-start\.test\.ts$/

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean => LONG.test(moduleId)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', '*/src/**/*.test.ts'],
    globalSetup: './test/setup.ts',
    reporters: ['default', './test/spec-coverage-reporter.ts'],
    pool: 'forks', // native addons and real processes
    maxWorkers: 6, // on two cores: most of the time they wait for processes, proofs and databases
    sequence: { sequencer: LongFirst },
    testTimeout: 180_000, // a bound, not a measure: real processes on shared machines; above every wait inside
    hookTimeout: 240_000,
  },
})
