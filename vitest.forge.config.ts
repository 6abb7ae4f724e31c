// `npm run test:forge`: against a real forge, which is built once from its Go module. The build is slow, so this is no
// part of `npm test`.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/forge/*.forge.ts'],
    pool: 'forks',
    testTimeout: 180_000, // a bound, not a measure
    hookTimeout: 3_600_000, // the first run builds the forge
    bail: 1, // each test builds on the one before
  },
})
