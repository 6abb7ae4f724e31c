// Where a running deployment is, from the files its runner writes: much finer than the API shows it. Used to do harm at a
// chosen step.
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { StepState } from '@berth/shared/wire'
import { attemptPaths, readClaim } from '../../agent/src/journal/attempt-files.ts'
import { EventFileReader } from '../../agent/src/journal/event-file.ts'
import { type Fixture, until } from '../fixtures/server/installation.ts'

export interface WatchedAttempt {
  dir: string
  /** Of its runner. */
  pid: number
}

const attemptFolders = (fixture: Fixture): string[] => {
  const folder = join(fixture.stateDir, 'attempts')
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
}

/** Every attempt there is now; the next one is none of these. */
export const knownAttempts = (fixture: Fixture): Set<string> => new Set(attemptFolders(fixture))

/** The attempt that begins after `known` was taken. */
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

/** Resolves when one of these steps has begun: true; false: the attempt ended without. */
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
