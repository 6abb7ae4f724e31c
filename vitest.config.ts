import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Minutes long and mostly waiting: begun last, they would run alone at the end. */
const LONG = /\/(?:dev-start|release)\.test\.ts$/
/** Minutes long as well, and left out where time runs short: begun first, they would never be. */
const SHORT_OF_LONGER = /\/test\/(?:attack|chaos)\//

class LongInTime extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean => LONG.test(moduleId)
    const isOptional = ({ moduleId }: TestSpecification): boolean => SHORT_OF_LONGER.test(moduleId)
    const others = sorted.filter((file) => !isLong(file) && !isOptional(file))
    const middle = Math.floor(others.length / 2)
    return [
      ...sorted.filter(isLong),
      ...others.slice(0, middle),
      ...sorted.filter(isOptional),
      ...others.slice(middle),
    ]
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', '*/src/**/*.test.ts'],
    globalSetup: './test/setup.ts',
    reporters: ['default', './test/spec-coverage-reporter.ts'],
    pool: 'forks', // native addons and real processes
    maxWorkers: 6, // on two cores: most of the time they wait for processes, proofs and databases
    sequence: { sequencer: LongInTime },
    testTimeout: 180_000, // a bound, not a measure: real processes on shared machines; above every wait inside
    expect: { poll: { timeout: 60_000 } }, // a bound as well
    hookTimeout: 600_000, // some build a release, or a program from its sources
  },
})
