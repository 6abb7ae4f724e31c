// `berth-agent collect`: the runner's child that reads files as the environment's user. Its order comes on stdin, files
// go to stdout. It parses the patterns while it still has the agent's rights, and reads the files afterwards.

import { readPatterns, whyUnfit } from '../runner/plan/artifact-patterns.ts'
import { collect } from './collect-child.ts'

export const runCollect = (): void =>
  collect(({ patterns }) => ({ ...readPatterns(patterns), whyUnfit }))
