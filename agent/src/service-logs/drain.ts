// Copies the log of a container into the log of its service, masked, with the times of the engine: as it is written
// (the daemon's followers), and to its end before the container is removed, because the engine's log dies with it.
// Invariants: one writer at a time; it goes on where the one before stopped; without the values to mask nothing is
// written.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ObjectRow } from '../journal/objects.ts'
import type { Engine } from '../machine/docker/engine.ts'
import { followLogs, type LogRecord, readLogsToEnd } from '../machine/docker/logs.ts'
import { environmentPaths } from '../machine/files.ts'
import { Masker } from '../machine/masking/mask.ts'
import { parseShellFile } from '../runner/plan/variable-files.ts'
import type { AgentSettings } from '../settings.ts'
import { awaitLog } from './claims.ts'
import { findResume } from './resume.ts'
import { ServiceLog } from './writer.ts'

export type LoggedContainer = Pick<ObjectRow, 'environmentId' | 'service' | 'taskId'> & {
  facts?: ObjectRow['facts']
}

/** Rows say which of the values are secret; without that all of them are masked. */
function readValues(settings: AgentSettings, of: LoggedContainer): Buffer[] {
  const { variables } = environmentPaths(settings, of.environmentId)
  const file = join(variables, `${of.taskId}-${of.service}.sh`)
  const values = parseShellFile(readFileSync(file, 'utf8'))
  const named = of.facts?.secretKeys
  const keys = Array.isArray(named) ? named.map(String) : [...values.keys()]
  return keys.map((key) => Buffer.from(values.get(key) ?? '')).filter((value) => value.length > 0)
}

interface Copying {
  log: ServiceLog
  since: string | undefined
  onRecord: (record: LogRecord) => void
  /** Time of the newest record. */
  last: () => string | undefined
}

async function beginCopy(
  settings: AgentSettings,
  of: LoggedContainer,
  madeAt: Date,
  values: Buffer[],
): Promise<Copying> {
  const dir = join(environmentPaths(settings, of.environmentId).logs, of.service)
  const resume = await findResume(dir, of.taskId, madeAt)
  const log = new ServiceLog(dir, of.taskId, new Masker(values), { resume })
  let last: string | undefined
  const onRecord = ({ stream, at, bytes }: LogRecord): void => {
    last = at
    log.write(stream, bytes, at)
  }
  return { log, since: resume?.since, onRecord, last: () => last }
}

/** Until the container ends, or `signal`. The caller holds the claim. Throws what the engine says. */
export async function followContainer(
  engine: Engine,
  settings: AgentSettings,
  of: LoggedContainer & { id: string; madeAt: Date },
  signal: AbortSignal,
): Promise<void> {
  const copy = await beginCopy(settings, of, of.madeAt, readValues(settings, of))
  try {
    await followLogs(engine, of.id, { since: copy.since, signal, onRecord: copy.onRecord })
    if (!signal.aborted) copy.log.close(copy.last())
  } finally {
    copy.log.abandon()
  }
}

/**
 * Of a container that runs no more. Without `secrets` its variable file is read; where that is gone too its log is not
 * kept: nobody could mask it. False: not all of it could be read in time.
 */
export async function drainContainerLog(
  engine: Engine,
  settings: AgentSettings,
  row: LoggedContainer,
  container: { id: string; madeAt: Date },
  secrets?: Buffer[],
): Promise<boolean> {
  const values = secrets ?? readValues(settings, row)
  const release = await awaitLog(settings, row)
  if (!release) return false
  try {
    const copy = await beginCopy(settings, row, container.madeAt, values)
    try {
      const { since, onRecord } = copy
      const isWhole = await readLogsToEnd(engine, container.id, { since, onRecord })
      if (isWhole) copy.log.close(copy.last())
      return isWhole
    } finally {
      copy.log.abandon()
    }
  } finally {
    release()
  }
}
