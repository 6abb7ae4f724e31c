// Maps the steps of the docker recipe to functions.
import { never } from '@berth/shared'
import type { Attempt } from '../attempt.ts'
import type { Work } from '../plan/plan.ts'
import { drainOld, stopOld } from '../steps/drain.ts'
import { claimRoutes, switchTraffic } from '../steps/route.ts'
import { admitDocker, writeDockerVariables } from './configure.ts'
import {
  awaitReplicas,
  bringUpDependency,
  networkStep,
  releaseService,
  startService,
} from './containers.ts'
import { collectDocker } from './finish.ts'
import { buildService, pullService } from './images.ts'
import { resetDocker } from './remove.ts'
import { newRoutes, verifyDocker } from './routes.ts'

export function performDocker(
  attempt: Attempt,
  { does, service }: Extract<Work, { kind: 'docker' }>,
): Promise<void> {
  switch (does) {
    case 'admit':
      return admitDocker(attempt)
    case 'claim-hosts':
      return claimRoutes(attempt, 'docker')
    case 'variables':
      return writeDockerVariables(attempt)
    case 'build':
      return buildService(attempt, service)
    case 'pull':
      return pullService(attempt, service)
    case 'reset':
      return resetDocker(attempt)
    case 'dependency':
      return bringUpDependency(attempt, service)
    case 'release':
      return releaseService(attempt, service)
    case 'network':
      return networkStep(attempt)
    case 'start':
      return startService(attempt, service)
    case 'health':
      return awaitReplicas(attempt, service)
    case 'switch':
      return switchTraffic(attempt, newRoutes(attempt))
    case 'verify':
      return verifyDocker(attempt, service)
    case 'drain':
      return drainOld(attempt)
    case 'stop-old':
      return stopOld(attempt)
    case 'collect':
      return collectDocker(attempt)
    default:
      return never(does)
  }
}
