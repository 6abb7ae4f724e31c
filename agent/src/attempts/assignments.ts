// Writes the control plane's desired state to the journal in one transaction for the whole message, so that an
// acknowledged version is on disk completely. Work that the journal cannot hold (secrets in memory, folders to delete)
// is returned and done after the commit.

import { TASKS } from '@berth/shared'
import {
  type Assignment,
  AttemptState,
  Desired,
  Recipe,
  type TaskSecrets,
} from '@berth/shared/wire'
import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { decideAccept } from './accept.ts'
import {
  buryUnseen,
  encodeAssignment,
  forgetAttempt,
  insertAttempt,
  type Records,
  repeatReport,
} from './records.ts'

export interface AssignmentSet {
  /** The set names every attempt that the control plane knows here; attempts that are missing from it are stopped. */
  complete: boolean
  version: bigint
  assignments: readonly Assignment[]
}

interface ApplyContext extends Records {
  bootId: string
  draining: boolean
  /** Free bytes on the agent's own disk; read at most once. */
  freeBytes: () => number
}

export interface Applied {
  secrets: { attemptId: string; secrets: TaskSecrets }[]
  forgotten: string[]
}

export function applyAssignments(c: ApplyContext, set: AssignmentSet): Applied {
  const applied: Applied = { secrets: [], forgotten: [] }
  let free: number | undefined
  const once = {
    ...c,
    freeBytes: () => {
      free ??= c.freeBytes()
      return free
    },
  }
  c.journal.transact(() => {
    applied.secrets.length = 0 // the transaction may run twice when the disk was full
    applied.forgotten.length = 0
    for (const assignment of set.assignments) applyOne(once, assignment, applied)
    if (set.complete) stopUnnamed(c, new Set(set.assignments.map((a) => a.attemptId)))
    c.journal.saveAssignmentsVersion(set.version)
  })
  return applied
}

function applyOne(c: ApplyContext, a: Assignment, applied: Applied): void {
  const { attempts } = c.journal
  const known = attempts.find(a.attemptId)
  const tombstone = known ? undefined : attempts.findTombstone(a.attemptId)
  const verdict = decideAccept({
    desired: a.desired,
    fence: a.fence,
    hasSpec: a.spec !== undefined,
    kind: a.spec?.kind.case,
    recipe: a.spec?.recipe ?? Recipe.UNSPECIFIED,
    known,
    buried: tombstone !== undefined,
    maxFence: attempts.maxFence(a.environmentId),
    isAnother: isAnother(attempts.bornAt(a.environmentId), bornAt(a)),
    draining: c.draining,
    freeBytes: known || tombstone ? 0 : c.freeBytes(),
  })
  const keepSecrets = (): void => {
    if (a.secrets) applied.secrets.push({ attemptId: a.attemptId, secrets: a.secrets })
  }
  switch (verdict.do) {
    case 'accept':
      insertAttempt(c, newRow(c, a), { state: AttemptState.ACCEPTED })
      attempts.raiseFence(a.environmentId, a.fence, c.clock.now())
      knowEnvironment(c, a)
      keepSecrets()
      return
    case 'refuse':
      insertAttempt(c, newRow(c, a), {
        state: AttemptState.REFUSED,
        code: verdict.code,
        message: verdict.message,
        platformCheck: true,
      })
      return
    case 'keep':
      if (known?.state === AttemptState.ACCEPTED) keepSecrets()
      return
    case 'report': {
      const of = known ?? tombstone
      // events that are still in the outbox will report it
      if (of && !c.journal.outbox.holds(a.attemptId)) repeatReport(c, of)
      return
    }
    case 'stop':
      if (known) attempts.update({ ...known, desired: Desired.STOPPED })
      return
    case 'forget':
      if (known) forgetAttempt(c, known)
      applied.forgotten.push(a.attemptId)
      return
    case 'bury':
      buryUnseen(c, a, { state: verdict.state, code: verdict.code, message: verdict.message })
      return
    case 'nothing':
      return
  }
}

/** 0: the control plane does not send it. */
const bornAt = ({ spec }: Assignment): number =>
  spec?.environment?.createdAt ? timestampMs(spec.environment.createdAt) : 0

const isAnother = (known: number, reported: number): boolean =>
  known > 0 && reported > 0 && known !== reported

function knowEnvironment({ journal }: ApplyContext, a: Assignment): void {
  const createdAt = bornAt(a)
  if (createdAt === 0) return
  const projectId = a.spec?.environment?.projectId ?? 0
  const { environmentId, taskId } = a
  journal.attempts.knowEnvironment({ environmentId, createdAt, projectId, taskId })
}

function newRow(c: ApplyContext, a: Assignment) {
  const within = a.startWithin ? durationMs(a.startWithin) : 0
  return {
    id: a.attemptId,
    environmentId: a.environmentId,
    fence: a.fence,
    desired: Desired.RUNNING,
    assignment: encodeAssignment(a),
    startWithinMs: Math.ceil(within > 0 ? within : TASKS.startWithinMs),
    receivedMonoMs: c.clock.mono(),
    receivedBootId: c.bootId,
    waitingFor: '',
    pid: 0,
    startTicks: '',
    importedOrdinal: 0,
  }
}

/** An attempt that a complete set does not name is stopped, but kept in the journal. */
function stopUnnamed(c: ApplyContext, named: Set<string>): void {
  for (const row of c.journal.attempts.list()) {
    if (named.has(row.id) || row.state >= AttemptState.SUCCEEDED) continue
    if (row.desired !== Desired.STOPPED) {
      c.journal.attempts.update({ ...row, desired: Desired.STOPPED })
    }
  }
}
