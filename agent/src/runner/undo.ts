// Undoes what a deployment created when it failed, was stopped or timed out: steps in reverse, the objects of each step
// in reverse, within the assignment's time limit. What cannot be undone is reported, and the rest is still tried.
// Commands of the repository that ran are not undone, and the message says so.
import { setTimeout as delay } from 'node:timers/promises'
import { removeTree } from '../machine/files.ts'
import type { Attempt } from './attempt.ts'
import { takeBackData } from './backup/make.ts'
import type { Made, PlacedStep } from './plan/plan.ts'
import { recipeOf, type UndoTable } from './recipe.ts'
import { routeAgain, takeBackPages, takeBackRoutes } from './routing.ts'
import { removeVariables } from './steps/remove-variables.ts'

/** What every recipe creates. */
const SHARED: UndoTable = {
  variables: async (attempt) => removeVariables(attempt),
  routes: (attempt) => takeBackRoutes(attempt, recipeOf(attempt).upstreams(attempt)),
  pages: takeBackPages,
  unrouted: routeAgain,
  data: takeBackData,
  async release(attempt) {
    await removeTree(attempt.paths.checkout) // left by an interrupted checkout
    if (attempt.results.reused === undefined) await removeTree(attempt.releaseDir)
  },
}

async function takeBack(attempt: Attempt, made: Made): Promise<void> {
  const { undo: own } = recipeOf(attempt)
  const act = (own[made.kind] ?? SHARED[made.kind]) as
    | ((attempt: Attempt, made: Made) => Promise<void>)
    | undefined
  if (!act) throw new Error(`nothing takes back ${made.kind}`)
  await act(attempt, made)
}

/** `begun` are the steps that were started, in order. */
export async function undo(attempt: Attempt, begun: PlacedStep[]): Promise<void> {
  const all = begun.flatMap(({ undo: made }) => made).reverse()
  const known = new Set<string>()
  // several steps may have created the same kind of object; it is undone once, at its first occurrence
  const list = all.filter((made) => {
    const key = JSON.stringify(made)
    const isNew = !known.has(key)
    known.add(key)
    return isNew
  })
  const bound = delay(attempt.limits.cleanupMs, 'late', { ref: false })
  for (const made of list) {
    const what = 'service' in made ? made.service : made.kind
    try {
      const done = await Promise.race([takeBack(attempt, made).then(() => 'done'), bound])
      if (done === 'late') {
        attempt.output.say(`Warning: clean-up took too long; ${what} and what came before it stay.`)
        return
      }
    } catch (error) {
      attempt.output.say(`Warning: ${what} could not be taken back: ${(error as Error).message}`)
    }
  }
}
