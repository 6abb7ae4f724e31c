// The docker recipe: images, containers and volumes in the engine.
import { DAEMON } from '@berth/shared'
import { Recipe as WireRecipe } from '@berth/shared/wire'
import { isEngineUp, openEngine } from '../../machine/docker/engine.ts'
import { ensureDockerFolders } from '../../machine/files.ts'
import { isRoot } from '../../machine/users/users.ts'
import type { Attempt } from '../attempt.ts'
import type { Recipe } from '../recipe.ts'
import { completeDocker, reportDocker, retiredContainers, stopOldContainers } from './finish.ts'
import { planDocker, planDockerCheckout } from './plan.ts'
import { endContainers, hasObjects, removeObjects, removeVolumes } from './remove.ts'
import { performDocker } from './steps.ts'
import {
  containerUpstreams,
  explainLeft,
  takeBackContainers,
  takeBackImages,
  takeBackVariables,
} from './undo.ts'

/** Without a row nothing was created; the engine is still asked if it is reachable. */
async function ownsObjects(attempt: Attempt): Promise<boolean> {
  const { ledger, assignment, results, spec, settings } = attempt
  if (hasObjects(ledger, assignment.environmentId, results.last ?? null)) return true
  return spec.recipe === WireRecipe.DOCKER && isEngineUp(openEngine(settings), DAEMON.probeMs)
}

export const docker: Recipe = {
  name: 'docker',
  planCheckout: planDockerCheckout,
  plan({ docker: section }, last, asked) {
    if (!section) throw new Error('the file has no docker section')
    return planDocker(section, last, asked)
  },
  asks: ({ docker: section }) =>
    (section?.services ?? []).map((service) => ({ ...service, count: service.replicas })),
  steps: { docker: performDocker },
  prepareFolders: ({ paths }) => ensureDockerFolders(paths, isRoot()),
  releaseOwner: () => undefined, // builds read it as root
  upstreams: containerUpstreams,
  retired: retiredContainers,
  stopOld: stopOldContainers,
  complete: completeDocker,
  report: reportDocker,
  undo: {
    containers: takeBackContainers,
    images: takeBackImages,
    variables: takeBackVariables,
  },
  explainFailure: explainLeft,
  removal: {
    hasRows: ({ ledger, assignment }) => hasObjects(ledger, assignment.environmentId, null),
    owns: ownsObjects,
    stop: endContainers,
    empty: removeVolumes,
    remove: removeObjects,
  },
}
