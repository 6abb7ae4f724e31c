// What `berth-agent gather` does: the child of a runner that reads files as the environment's user. Its order comes on
// standard input, files go to standard output; patterns are read while it still has the rights of the agent, files after.

import { readPatterns, whyUnfit } from '../runner/plan/artifact-patterns.ts'
import { collect } from './collect-child.ts'

export const runCollect = (): void =>
  collect(({ patterns }) => ({ ...readPatterns(patterns), whyUnfit }))
