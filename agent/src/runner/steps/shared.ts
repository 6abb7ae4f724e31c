// The steps that every recipe, removals, actions and backups share.
import { backupStep } from '../backup/make.ts'
import { restoreStep } from '../backup/restore.ts'
import type { StepTable } from '../recipe.ts'
import { unroute } from '../routing.ts'
import { runAction } from './action.ts'
import { collectArtifacts } from './artifacts.ts'
import { unpack } from './checkout.ts'
import { readConfig } from './configure.ts'
import { removeEverything, reset, runDestroyStep, stopEverything } from './destroy.ts'
import { drainOld, stopOld } from './drain.ts'
import { fetchRepository } from './fetch.ts'
import { changeService } from './lifecycle.ts'

export const SHARED_STEPS: StepTable = {
  fetch: fetchRepository,
  unpack,
  'read-config': readConfig,
  drain: drainOld,
  'stop-old': stopOld,
  reset,
  unroute,
  'destroy-command': (attempt, { step }, stepId) => runDestroyStep(attempt, step, stepId),
  stop: stopEverything,
  remove: removeEverything,
  action: runAction,
  lifecycle: changeService,
  backup: backupStep,
  restore: restoreStep,
  artifacts: collectArtifacts,
}
