// Puts files into the store of an agent the way a runner does, for tests whose runner is a script: hashed, synced,
// recorded, then told.
import { Readable } from 'node:stream'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { ArtifactIntake } from '../agent/src/exec/artifact-store.ts'
import { Ledger } from '../agent/src/journal/ledger.ts'
import type { ScriptedAttempt } from './scripted-executor.ts'

export interface Left {
  path: string
  content: Buffer
}

export const DAY = 86_400_000

/** What an action of this attempt leaves; resolves when the control plane will be told. */
export async function leave(
  stateDir: string,
  attempt: ScriptedAttempt,
  files: Left[],
  retentionMs = 7 * DAY,
): Promise<void> {
  const intake = new ArtifactIntake({ stateDir }, attempt.assignment, {
    files: 1_000,
    bytes: 5 * 1_024 ** 3,
  })
  for (const { path, content } of files) {
    const incoming = intake.begin(path, content.length, Date.now())
    for await (const chunk of Readable.from(pieces(content))) incoming?.write(chunk as Buffer)
    incoming?.finish()
  }
  const ledger = new Ledger({ stateDir })
  const rows = await intake.commit(ledger, Date.now() + retentionMs)
  ledger.close()
  for (let i = 0; i < rows.length; i += 200) {
    const artifacts = rows.slice(i, i + 200).map((row) => ({
      artifactId: row.id,
      relativePath: row.path,
      size: BigInt(row.size),
      sha256: row.sha256,
      modified: timestampFromMs(row.modifiedAt),
      expiresAt: timestampFromMs(row.expiresAt),
    }))
    attempt.emit({ case: 'artifacts', value: { artifacts } })
  }
}

function* pieces(content: Buffer): Generator<Buffer> {
  for (let at = 0; at < content.length; at += 1 << 20) yield content.subarray(at, at + (1 << 20))
}
