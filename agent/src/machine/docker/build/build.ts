// Builds an image with BuildKit. A build succeeds only with an image id; every other outcome is a BuildError that says
// what to check. The signal ends the build completely: the engine ends its processes when the connection is cut.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { basename } from 'node:path'
import type { Readable } from 'node:stream'
import { defaultServerSettings } from '@berth/shared'
import { BUILDS } from '../../../limits/docker.ts'
import type { Engine } from '../engine.ts'
import { EngineError, toEngineError } from '../engine-error.ts'
import { listContext, listRecipe, resolveInside } from './context.ts'
import { openTimes } from './context-times.ts'
import { fromEngineError, fromOutcome } from './failure.ts'
import { type BuildBounds, fenceBuild, markArguments } from './fence.ts'
import { type BuildObserver, type BuildOutcome, followBuild } from './follower.ts'
import { type BuildSession, type Folders, openBuildSession } from './session.ts'

export { BuildError, type BuildErrorKind } from './failure.ts'
export type { BuildStep } from './follower.ts'

export interface BuildOptions extends BuildObserver {
  /** Absolute; the caller has checked that it is in the checkout (`resolveInside`). */
  folder: string
  /** Relative to the folder. */
  dockerfile: string
  target: string | null
  args: Record<string, string>
  /** Name of the image. */
  tag: string
  labels: Record<string, string>
  noCache: boolean
  /** For successive builds. Without it, every file is sent. */
  context?: {
    /** The same for all of them; the engine compares with the files it kept under this key. */
    key: string
    /** Where we store the times that we reported for its files. */
    times: string
  }
  bounds?: BuildBounds
  /** The engine's data folder, where RUN commands are found as well. */
  dataRoot?: string | undefined
  /** A build shares the caches of `RUN --mount=type=cache` only with builds of the same name. */
  caches?: string
  /** Identifies the build's processes on this machine (`findBuildProcesses`): letters, digits, dashes. */
  mark?: string
  signal?: AbortSignal | undefined
}

/** The default of this machine. */
function ownBounds(): BuildBounds {
  const size = { cpus: availableParallelism(), memoryBytes: totalmem() }
  return { memoryBytes: defaultServerSettings(size).build_memory_bytes, pids: BUILDS.pids }
}

/** Throws a BuildError. */
export async function buildImage(
  engine: Engine,
  options: BuildOptions,
): Promise<{ imageId: string }> {
  const { signal, mark = randomUUID(), bounds = ownBounds(), dataRoot } = options
  const fence = fenceBuild(mark, bounds, dataRoot)
  let outcome: BuildOutcome
  try {
    signal?.throwIfAborted()
    outcome = await run(engine, options, mark)
  } catch (error) {
    throw fromEngineError(toEngineError(error, signal))
  } finally {
    fence.stop()
  }
  if (outcome.error === undefined && outcome.imageId) return { imageId: outcome.imageId }
  if (signal?.aborted) throw fromEngineError(toEngineError(new Error('aborted'), signal))
  const memory = fence.isEffective ? { memoryCause: fence.memoryCause } : {}
  throw fromOutcome(outcome, { dockerfile: options.dockerfile, ...memory })
}

export function readDockerfile({
  folder,
  dockerfile,
}: Pick<BuildOptions, 'folder' | 'dockerfile'>): string {
  try {
    return readFileSync(resolveInside(folder, dockerfile), 'utf8')
  } catch {
    return '' // the engine reports what is wrong with it
  }
}

function argumentsOf(options: BuildOptions, mark: string): Record<string, string> {
  const args = markArguments(options.args, mark, readDockerfile(options))
  return options.caches ? { ...args, BUILDKIT_CACHE_MOUNT_NS: options.caches } : args
}

const toQuery = (options: BuildOptions, session: string, mark: string) => ({
  version: 2,
  remote: 'client-session',
  session,
  t: options.tag,
  dockerfile: basename(options.dockerfile),
  ...(options.target ? { target: options.target } : {}),
  buildargs: JSON.stringify(argumentsOf(options, mark)),
  labels: JSON.stringify(options.labels),
  nocache: options.noCache,
})

const SILENT = `it did not ask for the files of the build in ${BUILDS.questionMs / 1_000} s`

async function run(engine: Engine, options: BuildOptions, mark: string): Promise<BuildOutcome> {
  const { folder, dockerfile, context } = options
  const times = openTimes(context?.times)
  // the engine ends the build when both of its connections are cut
  const closing = new AbortController()
  const signal = AbortSignal.any([closing.signal, ...(options.signal ? [options.signal] : [])])
  let session: BuildSession | undefined
  let isSilent = false
  const timer = setTimeout(() => {
    if (session?.isAsked) return
    isSilent = true
    closing.abort()
  }, BUILDS.questionMs)
  try {
    const folders: Folders = {
      dockerfile: () => listRecipe(folder, dockerfile),
      context: (wanted) => listContext(folder, wanted, times),
    }
    session = await openBuildSession(engine, { folders, key: context?.key ?? randomUUID(), signal })
    const query = { _query: toQuery(options, session.id, mark), _body: {} }
    const stream = await engine.dial<Readable>(
      { method: 'POST', path: '/build?', options: query, isStream: true },
      { signal },
    )
    const outcome = await followBuild(stream, options)
    if (outcome.error !== undefined && session.failure) throw session.failure
    times.save(outcome.error === undefined)
    return outcome
  } catch (error) {
    if (options.signal?.aborted) throw toEngineError(new Error('aborted'), options.signal)
    if (isSilent) throw new EngineError('refused', SILENT)
    if (!session?.failure) throw error
    const reason = `the build context cannot be read: ${session.failure.message}`
    throw new EngineError('refused', reason)
  } finally {
    clearTimeout(timer)
    closing.abort()
  }
}
