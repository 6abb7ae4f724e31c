// Steps `drain` and `stop-old`: what was replaced ends once it answers no request, whether it is a container or a
// process. What is still busy, or slow to end, is left to the daemon (maintenance/draining.ts): the new version serves,
// so its deployment need not wait.
import { setTimeout as delay } from 'node:timers/promises'
import { ROUTE_STEPS } from '../../limits/proxy.ts'
import type { Attempt } from '../attempt.ts'
import { allRecipes, recipeOf } from '../recipe.ts'
import { drain } from './route.ts'

export async function drainOld(attempt: Attempt): Promise<void> {
  const old = await Promise.all(allRecipes(attempt).map((recipe) => recipe.retired(attempt)))
  await drain(attempt, old.flat())
}

/** Ends one replaced part, here or, if that takes long, in the daemon. Returns the milliseconds; undefined: it goes on. */
export async function endWithin(
  { ledger }: Attempt,
  key: { environmentId: number; service: string; taskId: number },
  end: () => Promise<number>,
): Promise<number | undefined> {
  ledger.setDraining({ ...key, until: Date.now() })
  const ended = end().then((tookMs) => {
    ledger.removeDraining(key)
    return tookMs
  })
  return Promise.race([ended, delay(ROUTE_STEPS.endMs, undefined, { ref: false })])
}

export async function stopOld(attempt: Attempt): Promise<void> {
  const own = recipeOf(attempt)
  for (const recipe of allRecipes(attempt)) await recipe.stopOld(attempt, recipe !== own)
}
