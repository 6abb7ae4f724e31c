// `npm run test:unit`: tests of code that starts no process, opens no port and needs no component.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: [
      'shared/src/**/*.test.ts',
      'control-plane/src/domain/**/*.test.ts',
      'control-plane/src/settings/*.test.ts',
      'agent/src/runner/plan/**/*.test.ts',
      'agent/src/runner/{docker,manual}/{plan,container-spec,verify,image-references}.test.ts',
      'agent/src/link/{backoff,outbox-window,session-rules}.test.ts',
      'agent/src/link/logs/*.test.ts',
      'agent/src/attempts/decisions.test.ts',
      'cli/src/compose/*.test.ts',
      'cli/src/detect/*.test.ts',
      'cli/src/terminal/*.test.ts',
      'dashboard/src/**/*.test.ts',
      'test/architecture.test.ts',
    ],
    isolate: false,
    testTimeout: 60_000, // a bound, not a measure
  },
})
