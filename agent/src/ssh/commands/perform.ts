// Dispatches each verb to its work (work.ts).

import { isDockerPlan, isManualPlan } from '../../runner/plan/plan.ts'
import type { AgentSettings } from '../../settings.ts'
import { openSessionContext, type SessionContext } from '../sessions/context.ts'
import { fileOutput, type MaskedOutput, maskedOutput } from '../sessions/masked-output.ts'
import type { Output } from '../sessions/output.ts'
import type { Job } from '../sessions/session-start.ts'
import { NOT_AVAILABLE, Refusal, type Verb } from './commands.ts'
import type { Work } from './work.ts'

export async function startVerb(settings: AgentSettings, job: Job, output: Output): Promise<Work> {
  const { verb } = job
  // each branch loads only its own module, because a user waits
  if (verb.verb === 'server') {
    const { startServerShell } = await import('./manual.ts')
    return startServerShell(settings, job, output)
  }
  const context = openSessionContext(settings, job.environmentId ?? 0)
  switch (verb.verb) {
    case 'logs': {
      const { startLogs } = await import('./logs.ts')
      return startLogs(settings, context, verb, output)
    }
    case 'artifact': {
      const { startArtifact } = await import('./artifact.ts')
      return startArtifact(settings, context, verb, output)
    }
    case 'artifacts': {
      const { startArtifacts } = await import('./artifact.ts')
      return startArtifacts(settings, context, verb, output)
    }
    case 'forward': {
      const { startForward } = await import('./forward.ts')
      return startForward(settings, context, verb, output)
    }
    case 'copy': {
      const { scriptOf, limitBytes } = await import('./copy.ts')
      const ask = { job, verb: scriptOf(verb), context, needsShell: true }
      return limitBytes((to) => startCommand(settings, ask, fileOutput(context.masker, to)), output)
    }
    case 'shell':
    case 'exec': {
      const masked = maskedOutput(context.masker, output)
      return startCommand(settings, { job, verb, context }, masked)
    }
    default:
      throw new Refusal('There is nothing to do.')
  }
}

async function startCommand(
  settings: AgentSettings,
  ask: {
    job: Job
    verb: Extract<Verb, { verb: 'shell' | 'exec' }>
    context: SessionContext
    needsShell?: boolean
  },
  output: MaskedOutput,
): Promise<Work> {
  const { plan } = ask.context
  if (isDockerPlan(plan)) {
    const { startDocker } = await import('./docker.ts')
    return startDocker(settings, { ...ask, plan }, output)
  }
  if (isManualPlan(plan)) {
    const { startManual } = await import('./manual.ts')
    return startManual(settings, { ...ask, plan }, output)
  }
  throw new Refusal('Nothing of this environment runs here. Deploy it first.', NOT_AVAILABLE)
}
