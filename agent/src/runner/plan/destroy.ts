// The removal of an environment: the repository's own `manual.destroy` steps, while everything is still there, then
// what runs, then what lies about. PURE: from the last successful plan to phases of steps. The recipe of the task does
// not matter: what goes is what this server has. Routes go first, so that nobody is led to what is being taken apart.
import {
  isDockerPlan,
  isManualPlan,
  type LastPlan,
  type ManualPlan,
  type Phase,
  type Plan,
  type PlannedStep,
  type PlatformWork,
} from './plan.ts'

export interface RemovalRequest {
  /** "Remove anyway": the repository's steps are not run. */
  skipSteps: boolean
  /** The release in which they would run is still there. */
  hasRelease: boolean
  /** It has, or may have, routes. */
  hasRoutes: boolean
}

/** Why steps that the file names are not in the plan; undefined: all of them are. */
export type SkipReason = 'asked' | 'release_gone'

export function whySkipped(
  last: LastPlan | undefined,
  asked: Pick<RemovalRequest, 'skipSteps' | 'hasRelease'>,
): SkipReason | undefined {
  if (!isManualPlan(last) || last.section.destroy.length === 0) return undefined
  if (asked.skipSteps) return 'asked'
  return asked.hasRelease ? undefined : 'release_gone'
}

const commandSteps = (last: ManualPlan): PlannedStep[] =>
  last.section.destroy.map((command, index) => ({
    id: String(index + 1),
    title: command.title,
    work: { kind: 'destroy-command', step: command },
    undo: [], // commands that ran are not undone, and nothing else was touched yet
  }))

const step = (id: PlatformWork, title: string): PlannedStep => ({
  id,
  title,
  work: { kind: id },
  undo: [],
})

function namesOf(last: LastPlan | undefined): string[] {
  if (isDockerPlan(last)) return last.services.map(({ service }) => service)
  const kept = last?.section.services.filter(({ run }) => run !== null)
  return kept?.map(({ name }) => name) ?? []
}

function stopTitle(last: LastPlan | undefined): string {
  const names = namesOf(last)
  return names.length > 0 ? `Stop ${names.join(', ')}` : 'Stop what still runs'
}

/**
 * Without a plan (never deployed, or a removal that came further than this before) only the certain part is left:
 * nothing may run and nothing may stay, whatever is found.
 */
export function planDestroy(last: LastPlan | undefined, asked: RemovalRequest): Plan {
  const runs = isManualPlan(last) && whySkipped(last, asked) === undefined
  const unroute: PlannedStep[] = asked.hasRoutes
    ? [{ ...step('unroute', 'Remove its routes'), undo: [{ kind: 'unrouted' }] }]
    : []
  const phases: Phase[] = [
    { name: 'route', title: 'Route', steps: unroute },
    { name: 'run', title: 'Run', steps: runs ? commandSteps(last) : [] },
    {
      name: 'cleanup',
      title: 'Clean up',
      steps: [step('stop', stopTitle(last)), step('remove', 'Remove files and account')],
    },
  ]
  return { kind: 'destroy', phases: phases.filter(({ steps }) => steps.length > 0) }
}
