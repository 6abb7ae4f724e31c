// Steps `drain` and `stop-old`: whatever the version before was (containers, processes, or both after a change of
// recipe), requests that it has taken get their answer before it is stopped.
import type { Attempt } from '../attempt.ts'
import { allRecipes, recipeOf } from '../recipe.ts'
import { drain } from './route.ts'

export async function drainOld(attempt: Attempt): Promise<void> {
  const old = await Promise.all(allRecipes(attempt).map((recipe) => recipe.retired(attempt)))
  await drain(attempt, old.flat())
}

export async function stopOld(attempt: Attempt): Promise<void> {
  const own = recipeOf(attempt)
  for (const recipe of allRecipes(attempt)) await recipe.stopOld(attempt, recipe !== own)
}
