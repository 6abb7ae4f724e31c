// Where the bytes of an artifact come from, and how one is fetched whole: from a source that says size and digest first,
// resumed where it broke, a few times. A source that says something else than the record is not believed.

import { setImmediate as turn } from 'node:timers/promises'
import type { Artifact } from '@berth/shared/api'
import { CLIENT } from '@berth/shared/client-limits'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { ApiFailure } from '../problem.ts'
import { chooseTarget, PartialFile, type TargetOptions } from './file.ts'
import { PartsAhead } from './preallocate.ts'

export type OpenedArtifact = Arriving & {
  size: number
  sha256: string
  /** The first byte that comes: what was asked for, or 0. */
  from: number
}

/** What is to be written, or the work of a process that writes it into the target by itself. */
type Arriving =
  | { bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array> }
  | { written: Promise<void>; end(): Promise<void> }

export interface OpenTarget {
  /** A descriptor to whose end another process may write. */
  share(): number
}

/** One way to the bytes: through the control plane, or straight from the server. */
export interface ArtifactSource {
  /** What will be asked for, in this order: a way may bring several at once. */
  expect?(artifacts: readonly Artifact[]): void
  /** Files will be asked for in a moment: what takes time may begin. */
  prepare?(): void
  close?(): Promise<void>
  /** From this byte on, where the way allows it; with a target it may be written there right away. */
  open(artifact: Artifact, offset: number, target?: OpenTarget): Promise<OpenedArtifact>
  /** Whether the same may work in a moment. */
  mayRepeat(error: unknown): boolean
}

export interface FetchOptions extends TargetOptions {
  dir: string
  sleep: (ms: number) => Promise<void>
}

/** The path of the file, when it is whole and in its place; otherwise nothing of it is left. */
export async function fetchArtifact(
  source: ArtifactSource,
  artifact: Artifact,
  o: FetchOptions,
): Promise<string> {
  const file = new PartialFile(chooseTarget(o.dir, artifact, o), artifact)
  return (await receiveArtifact(source, artifact, file, o)).finish()
}

/** Whole and verified, not yet in its place; otherwise nothing of it is left. */
async function receiveArtifact(
  source: ArtifactSource,
  artifact: Artifact,
  file: PartialFile,
  o: FetchOptions,
): Promise<PartialFile> {
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        await receive(source, artifact, file)
        file.verify()
        return file
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

/** In its place, on disk. */
export interface Fetched {
  artifact: Artifact
  path: string
}

/** For each, how many of those right behind it lie in the same folder. */
function countFollowing(artifacts: readonly Artifact[]): number[] {
  const folders = artifacts.map(({ path }) => path.slice(0, path.lastIndexOf('/') + 1))
  const counts: number[] = []
  for (let at = folders.length - 1; at >= 0; at--) {
    counts[at] = folders[at] === folders[at + 1] ? (counts[at + 1] ?? 0) + 1 : 0
  }
  return counts
}

/**
 * One after the other; the first that fails ends it, and what is there is whole. The disk is given time for some of them
 * while the next ones come.
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
      path.catch(() => {}) // told when its turn comes
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

/** Whatever refused it: the file is not available, and nothing was written. */
function unavailable(artifact: Artifact, error: unknown): unknown {
  if (!(error instanceof ApiFailure)) return error
  const isAbout = ['artifact_', 'server_', 'transfers_'].some((p) => error.code?.startsWith(p))
  if (!isAbout) return error
  const message = `${artifact.path} cannot be fetched: ${error.message}`
  return new CliError(EXIT.error, message, error.hint, error)
}
