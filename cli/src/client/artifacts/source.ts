// Where the bytes of an artifact come from, and how one is fetched completely: from a source that states size and
// digest first, resumed where it broke, a few times. A source that contradicts the record is rejected.

import { setImmediate as turn } from 'node:timers/promises'
import type { Artifact } from '@berth/shared/api'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { ApiFailure } from '../problem.ts'
import { chooseTarget, PartialFile, type TargetOptions } from './file.ts'
import { PartsAhead } from './preallocate.ts'

export type OpenedArtifact = Arriving & {
  size: number
  sha256: string
  /** The first byte that comes: the requested offset, or 0. */
  from: number
}

/** Bytes to write, or the completion of a process that writes directly to the target. */
type Arriving =
  | { bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array> }
  | { written: Promise<void>; end(): Promise<void> }

export interface OpenTarget {
  /** A descriptor to which another process may append. */
  share(): number
}

/** One way to the bytes: through the control plane, or directly from the server. */
export interface ArtifactSource {
  /** The files that will be requested, in this order; a source may fetch several together. */
  expect?(artifacts: readonly Artifact[]): void
  /** Files will be requested soon, so slow preparation may begin. */
  prepare?(): void
  close?(): Promise<void>
  /** From this byte on if the source supports it; with a target, the source may write there directly. */
  open(artifact: Artifact, offset: number, target?: OpenTarget): Promise<OpenedArtifact>
  /** Whether a retry may succeed. */
  mayRepeat(error: unknown): boolean
}

interface FetchOptions extends TargetOptions {
  dir: string
  sleep: (ms: number) => Promise<void>
}

/** Complete and verified, not yet at its target; on failure nothing of it is left. */
async function receiveArtifact(
  source: ArtifactSource,
  artifact: Artifact,
  file: PartialFile,
  o: FetchOptions,
): Promise<void> {
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        await receive(source, artifact, file)
        file.verify()
        return
      } catch (error) {
        if (attempt > CLIENT.retries || !source.mayRepeat(error)) throw error
        file.trim()
        const asked = error instanceof ApiFailure ? (error.retryAfterMs ?? 0) : 0
        const delayMs = CLIENT.retryMs * 2 ** (attempt - 1)
        if (asked > CLIENT.retryAfterMs) throw error
        await o.sleep(Math.max(delayMs, asked))
      }
    }
  } catch (error) {
    await file.drop()
    throw unavailable(artifact, error)
  }
}

/** At its target, synced to disk. */
export interface Fetched {
  artifact: Artifact
  path: string
}

/** For each file, how many of those directly after it are in the same folder. */
function countFollowing(artifacts: readonly Artifact[]): number[] {
  const folders = artifacts.map(({ path }) => path.slice(0, path.lastIndexOf('/') + 1))
  const counts: number[] = []
  for (let at = folders.length - 1; at >= 0; at--) {
    counts[at] = folders[at] === folders[at + 1] ? (counts[at + 1] ?? 0) + 1 : 0
  }
  return counts
}

/**
 * Fetches one after the other; the first failure ends it, and the files that exist are complete. Some files are synced
 * to disk while the next ones arrive.
 */
export async function fetchArtifacts(
  source: ArtifactSource,
  artifacts: readonly Artifact[],
  o: FetchOptions,
  report: (fetched: readonly Fetched[]) => Promise<void>,
): Promise<void> {
  const settling: { artifact: Artifact; path: Promise<string> }[] = []
  const settle = async (most: number): Promise<void> => {
    const settled: Fetched[] = []
    try {
      while (settling.length > most) {
        const next = settling.shift()
        if (next) settled.push({ artifact: next.artifact, path: await next.path })
      }
    } finally {
      if (settled.length > 0) await report(settled)
    }
  }
  source.expect?.(artifacts)
  const options = { ...o, entered: new Set<string>() }
  const ahead = new PartsAhead()
  const following = countFollowing(artifacts)
  try {
    for (const [at, artifact] of artifacts.entries()) {
      const target = chooseTarget(o.dir, artifact, options)
      const part = ahead.take(target.folder, following[at] ?? 0)
      const file = new PartialFile(target, artifact, part)
      await receiveArtifact(source, artifact, file, o)
      const path = turn().then(() => file.finish())
      path.catch(() => {}) // reported in its turn
      settling.push({ artifact, path })
      if (settling.length > CLIENT.filesSettling) await settle(CLIENT.filesSettling / 2)
    }
  } finally {
    ahead.close()
    await source.close?.()
    await Promise.allSettled(settling.map(({ path }) => path))
    await settle(0)
  }
}

async function receive(
  source: ArtifactSource,
  artifact: Artifact,
  file: PartialFile,
): Promise<void> {
  const opened = await source.open(artifact, file.bytes, file)
  if (opened.size !== artifact.size_bytes || opened.sha256 !== artifact.sha256) {
    throw new CliError(
      EXIT.error,
      `${artifact.path}: the server offers another file than it listed`,
      'list the files again',
    )
  }
  if (opened.from !== file.bytes) file.restart()
  if ('bytes' in opened) {
    file.trim()
    for await (const chunk of opened.bytes) file.write(chunk)
    return
  }
  try {
    await file.follow(opened.written)
  } finally {
    await opened.end()
  }
  file.trim()
}

/** For every kind of refusal: the file is not available, and nothing was written. */
function unavailable(artifact: Artifact, error: unknown): unknown {
  if (!(error instanceof ApiFailure)) return error
  const isAbout = ['artifact_', 'server_', 'transfers_'].some((p) => error.code?.startsWith(p))
  if (!isAbout) return error
  const message = `${artifact.path} cannot be fetched: ${error.message}`
  return new CliError(EXIT.error, message, error.hint, error)
}
