// The manual recipe: the repository's own commands on the server, and processes that Berth keeps running.
import { removeTree } from '../../machine/files.ts'
import { endLeftovers } from '../../machine/process/leftovers.ts'
import { restoreCurrent } from '../activation.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { isManualPlan } from '../plan/plan.ts'
import type { Recipe } from '../recipe.ts'
import { newCommandContext, runListedStep } from '../steps/command.ts'
import { belongingOf } from '../steps/end-version.ts'
import { claimRoutes } from '../steps/route.ts'
import { admit, prepareAccount } from './admit.ts'
import { choosePorts, releasePorts, writeVariables } from './configure.ts'
import {
  activate,
  collect,
  completeDeployment,
  reportDeployment,
  stopOld,
  verify,
} from './finish.ts'
import { findKeptRelease } from './kept-release.ts'
import { planCheckout, planManual } from './plan.ts'
import { processUpstreams, reportUnmanaged, switchManual } from './routes.ts'
import { awaitHealth, retiredProcesses, startProcess } from './service-processes.ts'
import { linkShared } from './shared-files.ts'
import { copyStatic, staticFolder } from './static.ts'
import { selectTools } from './tools.ts'
import { requireUnrouted, takeBackProcess } from './undo.ts'
import { lookForWrittenFiles } from './written-files.ts'

/** Stops the processes of an environment that changed its recipe, including those that its commands left running. */
async function stopLeft(attempt: Attempt): Promise<void> {
  if (!isManualPlan(attempt.results.last)) return
  const left = await endLeftovers(await belongingOf(attempt), attempt.limits.killGraceMs)
  if (left.length > 0) throw new Error(`${left.length} processes could not be ended`)
}

export const manual: Recipe = {
  name: 'manual',
  planCheckout,
  plan({ manual: section }, last, asked) {
    if (!section) throw new Error('the file has no manual section')
    return planManual(section, last, asked)
  },
  asks: ({ manual: section }) =>
    (section?.services ?? []).flatMap(({ name, run }) =>
      run ? [{ name, memoryBytes: run.memoryBytes, cpus: run.cpus }] : [],
    ),
  steps: {
    admit,
    account: prepareAccount,
    'claim-hosts': (attempt) => claimRoutes(attempt, 'manual'),
    ports: choosePorts,
    variables: writeVariables,
    'written-files': lookForWrittenFiles,
    share: linkShared,
    tools: selectTools,
    async command(attempt, { step }, stepId) {
      const result = await runListedStep(attempt, step, stepId, newCommandContext(attempt))
      attempt.results.builtAt = Date.now()
      return result
    },
    static: (attempt, { service }) => copyStatic(attempt, service),
    start: (attempt, { service }) => startProcess(attempt, service),
    health: (attempt, { service }) => awaitHealth(attempt, service),
    activate,
    switch: switchManual,
    verify: (attempt, { service }) => verify(attempt, service),
    collect,
  },
  findKeptRelease,
  prepareFolders: () => undefined, // created with the account
  releaseOwner: accountOf,
  upstreams: processUpstreams,
  retired: async (attempt) => retiredProcesses(attempt),
  async stopOld(attempt, isLeft) {
    await stopOld(attempt)
    if (isLeft) await stopLeft(attempt)
  },
  complete: completeDeployment,
  report: reportDeployment,
  undo: {
    process: (attempt, { service }) => takeBackProcess(attempt, service),
    current: async (attempt) => restoreCurrent(attempt),
    ports: releasePorts,
    async static(attempt, { service }) {
      requireUnrouted(attempt, service)
      await removeTree(staticFolder(attempt, service))
    },
  },
  explainFailure: reportUnmanaged,
}
