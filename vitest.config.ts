import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', '*/src/**/*.test.ts'],
    globalSetup: './test/setup.ts',
    pool: 'forks', // native addons and real processes
    maxWorkers: 4, // most of the time they wait for processes, proofs and databases
    testTimeout: 180_000, // a bound, not a measure: real processes on shared machines; above every wait inside
    hookTimeout: 240_000,
  },
})
