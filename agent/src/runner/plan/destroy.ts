// Plans the removal of an environment: routes first, so that no request reaches what is being removed; then the
// repository's own `manual.destroy` steps, while everything still exists; then processes, then files. PURE: turns the
// last successful plan into phases of steps. It removes what this server has, regardless of the recipe of the task.
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

interface RemovalRequest {
  /** "Remove anyway": the repository's steps are not run. */
  skipSteps: boolean
  /** The release in which they would run still exists. */
  hasRelease: boolean
  /** The environment has, or may have, routes. */
  hasRoutes: boolean
}

/** Why the plan omits steps that the file names; undefined: it has all of them. */
type SkipReason = 'asked' | 'release_gone'

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
    undo: [], // commands that ran cannot be undone, and nothing else was touched yet
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
 * Without a plan (never deployed, or an earlier removal got further than this) only the certain part remains: nothing
 * may run and nothing may stay.
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
