// Steps `drain` and `stop-old`: requests that the previous version accepted are answered before it is stopped, whether
// it has containers, processes, or both after a change of recipe.
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
