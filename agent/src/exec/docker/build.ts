// Builds an image with BuildKit. A build succeeds only with an image id; everything else is a BuildError that says what
// to look at. The signal ends the build for good: the engine ends its processes when the connection is cut.
import type { Readable } from 'node:stream'
import { fromEngineError, fromOutcome } from './build-failure.ts'
import { type BuildObserver, type BuildOutcome, followBuild } from './build-follower.ts'
import { packContext } from './context.ts'
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
  signal?: AbortSignal | undefined
}

/** Throws a BuildError. */
export async function buildImage(
  engine: Engine,
  options: BuildOptions,
): Promise<{ imageId: string }> {
  const { signal } = options
  let outcome: BuildOutcome
  try {
    signal?.throwIfAborted()
    outcome = await run(engine, options)
  } catch (error) {
    throw fromEngineError(toEngineError(error, signal))
  }
  if (outcome.error === undefined && outcome.imageId) return { imageId: outcome.imageId }
  if (signal?.aborted) throw fromEngineError(toEngineError(new Error('aborted'), signal))
  throw fromOutcome(outcome, options.dockerfile)
}

async function run(engine: Engine, options: BuildOptions): Promise<BuildOutcome> {
  const { docker, close } = engine.lease()
  const { dockerfile, signal } = options
  const context = packContext(options.folder, { dockerfile, ...(signal ? { signal } : {}) })
  let unreadable: Error | undefined
  context.once('error', (error) => {
    unreadable = error
  })
  signal?.addEventListener('abort', close)
  try {
    const stream = await docker.buildImage(context, {
      version: '2',
      t: options.tag,
      dockerfile,
      ...(options.target ? { target: options.target } : {}),
      buildargs: options.args,
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
