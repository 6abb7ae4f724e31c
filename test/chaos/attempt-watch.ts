// The progress of a running deployment, from the files of its runner: much finer than the API. Used to strike at a
// chosen step.
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { StepState } from '@berth/shared/wire'
import { attemptPaths, readClaim } from '../../agent/src/journal/attempt-files.ts'
import { EventFileReader } from '../../agent/src/journal/event-file.ts'
import { type Fixture, until } from '../fixtures/server/installation.ts'

export interface WatchedAttempt {
  dir: string
  /** The runner's pid. */
  pid: number
}

const attemptFolders = (fixture: Fixture): string[] => {
  const folder = join(fixture.stateDir, 'attempts')
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
}

/** All current attempts; the next one is not among them. */
export const knownAttempts = (fixture: Fixture): Set<string> => new Set(attemptFolders(fixture))

/** The first attempt that is not in `known`. */
export function nextAttempt(fixture: Fixture, known: Set<string>): Promise<WatchedAttempt> {
  return until('the next attempt', () => {
    for (const dir of attemptFolders(fixture).filter((one) => !known.has(one) && statSync(one))) {
      const claim = readClaim(dir)
      if (claim?.by === 'runner' && existsSync(attemptPaths(dir).events))
        return { dir, pid: claim.pid }
    }
    return undefined
  })
}

/** True when one of these steps has begun; false if the attempt ended before. */
export async function reached(
  attempt: WatchedAttempt,
  steps: RegExp,
  ms: number,
): Promise<boolean> {
  const reader = EventFileReader.open(attemptPaths(attempt.dir).events)
  try {
    return await until(
      `a step like ${steps}`,
      () => {
        for (let found = reader.read(); found.length > 0; found = reader.read()) {
          for (const { event } of found) {
            const { body } = event
            if (body.case === 'step' && body.value.state === StepState.RUNNING) {
              if (steps.test(body.value.stepId)) return true
            }
            if (body.case === 'attempt' && body.value.state >= 100) return false
          }
        }
        return undefined
      },
      ms,
    )
  } finally {
    reader.close()
  }
}
