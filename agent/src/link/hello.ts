// The first message of a session: the agent's identity, the content of the journal and its position.
import { randomUUID } from 'node:crypto'
import { SESSION, VERSION } from '@berth/shared'
import {
  type AttemptSnapshot,
  AttemptSnapshotSchema,
  AttemptState,
  type Hello,
  HelloSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { AttemptManager } from '../attempts/attempt-manager.ts'
import type { Spools } from '../attempts/spools.ts'
import type { Clock } from '../clock.ts'
import type { AttemptRow } from '../journal/attempt-table.ts'
import type { Journal } from '../journal/journal.ts'
import type { Host } from '../maintenance/host.ts'
import type { Identity } from './identity/identity.ts'
import { PROTOCOL } from './session-rules.ts'

interface HelloFacts {
  identity: Identity
  journal: Journal
  manager: AttemptManager
  spools: Spools
  host: Host
  clock: Clock
  instanceId: string
  previousSessionId: string
}

export const newInstanceId = (): string => randomUUID()

/** Live attempts first; if there are more than fit, finished ones wait for the next session. */
const byUrgency = (a: AttemptRow, b: AttemptRow): number =>
  Number(a.state >= AttemptState.SUCCEEDED) - Number(b.state >= AttemptState.SUCCEEDED)

export function createHello(f: HelloFacts): Hello {
  const { first, last } = f.journal.outbox.range()
  const rows = f.journal.attempts.list().sort(byUrgency).slice(0, SESSION.helloAttempts)
  return create(HelloSchema, {
    protocolMin: PROTOCOL.min,
    protocolMax: PROTOCOL.max,
    agentVersion: VERSION,
    capabilities: f.host.capabilities(),
    instanceId: f.instanceId,
    journalId: f.journal.journalId,
    firstEventSeq: first,
    lastEventSeq: last,
    previousSessionId: f.previousSessionId,
    host: f.host.info(),
    attempts: rows.map((row) => snapshot(row, f)),
    agentTime: timestampFromMs(f.clock.now()),
    trustGeneration: BigInt(f.identity.trustGeneration),
    fences: f.journal.attempts.listFences(SESSION.helloFences).map(({ createdAt, ...known }) => ({
      ...known,
      ...(createdAt > 0 ? { createdAt: timestampFromMs(createdAt) } : {}),
    })),
  })
}

function snapshot(row: AttemptRow, f: HelloFacts): AttemptSnapshot {
  return create(AttemptSnapshotSchema, {
    attemptId: row.id,
    fence: row.fence,
    state: row.state,
    lastLogSeq: BigInt(f.spools.find(row.id)?.lastSeq ?? 0),
    secretsHeld: f.manager.holdsSecrets(row.id),
    environmentId: row.environmentId,
  })
}
