// Copies the log of a container into the log of its service, masked, with the engine's timestamps: live (the daemon's
// followers), and completely before the container is removed, because that deletes the engine's log. Invariants: one
// writer at a time; it continues where the previous one stopped; without the values to mask, nothing is written.
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

/** The lines of a service with several containers say which one wrote them. */
function replicaOf({ facts }: LoggedContainer): { replica: number; isOneOfSeveral: boolean } {
  const replica = Number(facts?.replica ?? 1)
  return { replica, isOneOfSeveral: replica > 1 || Number(facts?.replicas ?? 1) > 1 }
}

export type LoggedContainer = Pick<ObjectRow, 'environmentId' | 'service' | 'taskId'> & {
  facts?: ObjectRow['facts']
}

/** Rows say which values are secret; without a row, all values are masked. */
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
  const { replica, isOneOfSeveral } = replicaOf(of)
  const resume = await findResume(dir, { taskId: of.taskId, replica }, madeAt)
  const options = { resume, replica: isOneOfSeveral ? replica : undefined }
  const log = new ServiceLog(dir, of.taskId, new Masker(values), options)
  let last: string | undefined
  const onRecord = ({ stream, at, bytes }: LogRecord): void => {
    last = at
    log.write(stream, bytes, at)
  }
  return { log, since: resume?.since, onRecord, last: () => last }
}

/** Ends with the container, or on `signal`. The caller holds the claim. Throws the engine's errors. */
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
 * For a stopped container. Without `secrets`, reads its variable file; if that is missing too, the log is dropped,
 * because it cannot be masked. False when the time was too short to read all of it.
 */
export async function drainContainerLog(
  engine: Engine,
  settings: AgentSettings,
  row: LoggedContainer,
  container: { id: string; madeAt: Date },
  secrets?: Buffer[],
): Promise<boolean> {
  const values = secrets ?? readValues(settings, row)
  const release = await awaitLog(settings, { ...row, replica: replicaOf(row).replica })
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
