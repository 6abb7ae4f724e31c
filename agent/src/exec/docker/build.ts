// Builds an image with BuildKit. A build succeeds only with an image id; everything else is a BuildError that says what
// to look at. The signal ends the build for good: the engine ends its processes when the connection is cut.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { PROCESSES } from '@berth/shared'
import { fromEngineError, fromOutcome } from './build-failure.ts'
import { fenceBuild, markArguments } from './build-fence.ts'
import { type BuildObserver, type BuildOutcome, followBuild } from './build-follower.ts'
import { openBuildSession } from './build-session.ts'
import { packContext, resolveInside } from './context.ts'
import { type Engine, EngineError, toEngineError } from './engine.ts'

export { BuildError, type BuildErrorKind } from './build-failure.ts'
export type { BuildStep } from './build-follower.ts'

export interface BuildOptions extends BuildObserver {
  /** Absolute; its caller has checked that it lies in the checkout (`resolveInside`). */
  folder: string
  /** Relative to the folder. */
  dockerfile: string
  target: string | null
  args: Record<string, string>
  /** Name of the image. */
  tag: string
  labels: Record<string, string>
  noCache: boolean
  /** Of each RUN command. */
  memoryBytes?: number
  /** Names the build's processes on this machine (`findBuildProcesses`): letters, digits, dashes. */
  mark?: string
  signal?: AbortSignal | undefined
}

/** Throws a BuildError. */
export async function buildImage(
  engine: Engine,
  options: BuildOptions,
): Promise<{ imageId: string }> {
  const { signal, mark = randomUUID(), memoryBytes = PROCESSES.stepMemoryBytes } = options
  const fence = fenceBuild(mark, memoryBytes)
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
  const limit = fence.isEffective ? memoryBytes : undefined
  throw fromOutcome(outcome, { dockerfile: options.dockerfile, memoryBytes: limit })
}

function readDockerfile({ folder, dockerfile }: BuildOptions): string {
  try {
    return readFileSync(resolveInside(folder, dockerfile), 'utf8')
  } catch {
    return '' // the engine says what is wrong with it
  }
}

/** A number: for the text '2' dockerode would open a session of its own, which dies after 5 s. */
const withBuildKit = (session: string) => ({ version: 2, session }) as unknown as { version: '2' }

async function run(engine: Engine, options: BuildOptions, mark: string): Promise<BuildOutcome> {
  const { docker, line, close } = engine.lease()
  const { dockerfile, signal } = options
  const context = packContext(options.folder, { dockerfile, ...(signal ? { signal } : {}) })
  let unreadable: Error | undefined
  context.once('error', (error) => {
    unreadable = error
  })
  signal?.addEventListener('abort', close)
  try {
    const stream = await docker.buildImage(context, {
      ...withBuildKit(await openBuildSession(line)),
      t: options.tag,
      dockerfile,
      ...(options.target ? { target: options.target } : {}),
      buildargs: markArguments(options.args, mark, readDockerfile(options)),
      labels: options.labels,
      nocache: options.noCache,
      rm: true,
      forcerm: true,
      ...(signal ? { abortSignal: signal } : {}),
    })
    return await followBuild(stream as Readable, options)
  } catch (error) {
    if (!unreadable || signal?.aborted) throw error
    throw new EngineError('refused', `the build context cannot be read: ${unreadable.message}`)
  } finally {
    signal?.removeEventListener('abort', close)
    context.on('error', () => {}).destroy()
    close()
  }
}
