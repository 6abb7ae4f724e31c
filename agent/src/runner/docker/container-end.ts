// Ends one container: stops it, reads its log to the end, removes it, and only then deletes its row.

import { STEPS } from '@berth/shared'
import type { ObjectRow } from '../../journal/objects.ts'
import {
  inspectOwned,
  type Observed,
  removeContainer,
  stopContainer,
} from '../../machine/docker/containers.ts'
import { drainContainerLog } from '../../service-logs/drain.ts'
import type { Attempt } from '../attempt.ts'
import { lastSecrets } from '../last-version.ts'
import { dockerOf } from './docker-context.ts'

/** A log that cannot be kept is reported; the removal continues. */
async function keepLog(attempt: Attempt, row: ObjectRow, seen: Observed): Promise<void> {
  const { settings, paths, results, secrets, output } = attempt
  const values: Buffer[] = secrets.variables.map(({ value }) => Buffer.from(value))
  const { values: written, secretKeys = [] } = results.variables ?? {}
  values.push(...secretKeys.map((key) => Buffer.from(written?.get(key) ?? '')))
  if (results.last) values.push(...lastSecrets(paths, results.last))
  try {
    const isWhole = await drainContainerLog(dockerOf(attempt).engine, settings, row, seen, values)
    if (!isWhole) output.say(`Warning: not all of the log of ${row.name} could be read.`)
  } catch (error) {
    output.say(`Warning: the log of ${row.name} was not kept: ${(error as Error).message}`)
  }
}

/** Returns the milliseconds until it was gone. A container that no longer exists is not a failure. */
export async function endContainer(attempt: Attempt, row: ObjectRow): Promise<number> {
  const { engine } = dockerOf(attempt)
  const startedAt = performance.now()
  const seen = await inspectOwned(engine, attempt.settings, row.name)
  if (seen) {
    const timeoutMs = Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs)
    if (seen.state === 'running' || seen.state === 'restarting') {
      await stopContainer(engine, seen.id, timeoutMs)
    }
    await keepLog(attempt, row, seen)
    await removeContainer(engine, seen.id)
  }
  attempt.ledger.objects.remove(row)
  return performance.now() - startedAt
}
