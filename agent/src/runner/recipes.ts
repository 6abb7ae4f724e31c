// The table of recipes.
import { Recipe as WireRecipe } from '@berth/shared/wire'
import { docker } from './docker/recipe.ts'
import { manual } from './manual/recipe.ts'
import type { Recipe } from './recipe.ts'

const BY_WIRE: Readonly<Partial<Record<WireRecipe, Recipe>>> = {
  [WireRecipe.DOCKER]: docker,
  [WireRecipe.MANUAL]: manual,
}

export const RECIPES: readonly Recipe[] = [docker, manual]

/**
 * Without a recipe (a removal of something that never ran) the manual one is used, which then has nothing of its own to
 * do.
 */
export const findRecipe = (recipe: WireRecipe | undefined): Recipe =>
  BY_WIRE[recipe ?? WireRecipe.UNSPECIFIED] ?? manual
