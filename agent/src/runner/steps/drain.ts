// Step `drain`: whatever the version before was (containers, processes, or both after a change of recipe), requests that
// it has taken get their answer before it is stopped.
import type { Attempt } from '../attempt.ts'
import { retiredContainers } from '../docker/finish.ts'
import { retiredProcesses } from '../manual/service-processes.ts'
import { drain } from './route.ts'

export const drainOld = async (attempt: Attempt): Promise<void> =>
  drain(attempt, [...(await retiredContainers(attempt)), ...retiredProcesses(attempt)])
