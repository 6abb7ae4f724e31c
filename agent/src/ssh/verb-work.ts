// What each verb does, as one shape: input goes in, output comes out masked, it ends by itself or is ended.
import type { AgentSettings } from '../settings.ts'
import type { Ending, TerminalSize } from './frames.ts'
import { openScene } from './scene.ts'
import { startArtifact } from './verb-artifact.ts'
import { startDocker } from './verb-docker.ts'
import { startLogs } from './verb-logs.ts'
import { startManual, startServerShell } from './verb-manual.ts'
import { NOT_AVAILABLE, Refusal } from './verbs.ts'
import type { Output } from './work.ts'
import type { Job } from './work-start.ts'

export interface Work {
  /** False: wait until `whenReady` before more. */
  input(chunk: Buffer): boolean
  whenReady(go: () => void): void
  /** False: a session of this verb ends with its input. */
  endInput(): boolean
  resize(size: TerminalSize): void
  done: Promise<Ending>
  /** Resolves when nothing of it is left. */
  end(): Promise<void>
}

/** For verbs that take nothing. */
export const withoutInput = (done: Promise<Ending>, stop: AbortController): Work => ({
  input: () => true,
  whenReady: (go) => go(),
  endInput: () => false,
  resize: () => undefined,
  done,
  async end() {
    stop.abort()
    await done.catch(() => undefined)
  },
})

export async function startVerb(settings: AgentSettings, job: Job, output: Output): Promise<Work> {
  const { verb } = job
  if (verb.verb === 'server') return startServerShell(settings, job, output)
  const scene = openScene(settings, job.environmentId ?? 0)
  switch (verb.verb) {
    case 'logs':
      return startLogs(settings, scene, verb, output)
    case 'artifact':
      return startArtifact(settings, scene, verb, output)
    case 'shell':
    case 'exec':
      if (scene.plan === null)
        throw new Refusal('Nothing of this environment runs here. Deploy it first.', NOT_AVAILABLE)
      return scene.plan.format === 2
        ? startDocker(settings, { job, verb, plan: scene.plan, masker: scene.masker }, output)
        : startManual(settings, { job, verb, scene, plan: scene.plan }, output)
    default:
      throw new Refusal('There is nothing to do.')
  }
}
