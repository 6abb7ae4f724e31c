// The interface of a recipe. The runner drives plans and knows no recipe: each recipe is an object in its own folder
// and a row in recipes.ts.
import type { ServiceFile } from '@berth/shared/service-file'
import type { Account } from '../machine/process/confinement.ts'
import type { Attempt } from './attempt.ts'
import { PartKey } from './parts.ts'
import type { Ask } from './plan/ceilings.ts'
import type { LastPlan, Made, PlacedStep, Plan, Work } from './plan/plan.ts'
import type { Retired } from './routing.ts'

export interface StepResult {
  exitCode?: number | undefined
  message?: string
}

/** The member of a union whose kind may be K. */
type OfKind<U extends { kind: string }, K> = U extends unknown
  ? K extends U['kind']
    ? U
    : never
  : never

/** The function that performs a step, by the kind of its work. */
export type StepTable = {
  readonly [K in Work['kind']]?: (
    attempt: Attempt,
    work: OfKind<Work, K>,
    stepId: string,
  ) => Promise<StepResult | undefined> | Promise<void>
}

/** The function that undoes what a step created, by kind. */
export type UndoTable = {
  readonly [K in Made['kind']]?: (attempt: Attempt, made: OfKind<Made, K>) => Promise<void>
}

/** Removes everything that a recipe keeps outside of the environment's folders and processes. */
export interface Removal {
  /** Whether the ledger has rows. */
  hasRows(attempt: Attempt): boolean
  /** Whether objects may exist, in the ledger or not. */
  owns(attempt: Attempt): Promise<boolean>
  stop(attempt: Attempt): Promise<void>
  /** Removes the data, for a reset. */
  empty(attempt: Attempt): Promise<void>
  /** Removes everything. */
  remove(attempt: Attempt): Promise<void>
}

export interface Recipe {
  /** As the service file spells it. */
  readonly name: 'docker' | 'manual'
  /** The plan until .service.yml is known. */
  planCheckout(): Plan
  plan(
    file: ServiceFile,
    last: LastPlan | undefined,
    asked: { fresh: boolean; reused: boolean },
  ): Plan
  /** What its services ask of the server. */
  asks(file: ServiceFile): Ask[]
  /** Its own steps; those of every recipe are in steps/shared.ts. */
  readonly steps: StepTable
  /** The deployment whose kept release can be used without running the repository's steps again. */
  findKeptRelease?(attempt: Attempt, file: ServiceFile): number | undefined
  prepareFolders(attempt: Attempt): void
  /** The owner of the files of a checkout; undefined: root. */
  releaseOwner(attempt: Attempt): Account | undefined
  /** Addresses of the version that is being deployed. */
  upstreams(attempt: Attempt): string[]
  /** Where versions that are about to end answer. */
  retired(attempt: Attempt): Promise<Retired[]>
  /** Stops what was replaced; `isLeft`: the environment has another recipe now. */
  stopOld(attempt: Attempt, isLeft: boolean): Promise<void>
  /** The point of no return: this becomes the running version. */
  complete(attempt: Attempt): void
  /** Reports what users see of the version, after `complete`. */
  report(attempt: Attempt): void
  readonly undo: UndoTable
  /** What a failure means for the previous version, as sentences; empty: nothing. */
  explainFailure(attempt: Attempt, begun: PlacedStep[]): Promise<string>
  readonly removal?: Removal
}

interface Recipes {
  own: Recipe
  all: readonly Recipe[]
}
const RECIPES = new PartKey<Recipes>('recipes')

export const openRecipes = (attempt: Attempt, recipes: Recipes): void =>
  void attempt.parts.open(RECIPES, () => recipes)

function recipesOf(attempt: Attempt): Recipes {
  const found = attempt.parts.find(RECIPES)
  if (!found) throw new Error('the recipe is not known yet')
  return found
}

export const recipeOf = (attempt: Attempt): Recipe => recipesOf(attempt).own
export const allRecipes = (attempt: Attempt): readonly Recipe[] => recipesOf(attempt).all
