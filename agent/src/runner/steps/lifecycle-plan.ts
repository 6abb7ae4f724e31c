// Plans a restart, stop or start of services of the last successful deployment. PURE. Services start in the order of a
// deployment and stop in reverse, so that a service never runs without those it depends on.
import { inRanks } from '../docker/plan.ts'
import { isDockerPlan, type LastPlan, type LifecycleVerb, type Plan } from '../plan/plan.ts'

/** Its owner keeps it running, so Berth cannot stop it. A folder of files needs no process, only its address. */
const isManaged = (service: { run: unknown; target: { kind: string } | null }): boolean =>
  service.run !== null || service.target?.kind === 'root'

/** Services that Berth can restart, stop and start, in the order in which they start. */
export function managedServices(last: LastPlan): string[] {
  const services = isDockerPlan(last)
    ? inRanks(last.section.services).flat()
    : last.section.services.filter(isManaged)
  return services.map(({ name }) => name)
}

const TITLES: Record<LifecycleVerb, string> = { restart: 'Restart', stop: 'Stop', start: 'Start' }

/** Without a deployment or such a service only the step remains that reports this. */
export function planLifecycle(
  last: LastPlan | null | undefined,
  verb: LifecycleVerb,
  service: string,
): Plan {
  const managed = last ? managedServices(last) : []
  const wanted = service === '' ? managed : managed.filter((name) => name === service)
  const names = wanted.length > 0 ? wanted : [service]
  const steps = (verb === 'stop' ? names.toReversed() : names).map((name) => ({
    id: name === '' ? verb : `${verb}:${name}`,
    title: name === '' ? TITLES[verb] : `${TITLES[verb]} ${name}`,
    work: { kind: 'lifecycle' as const, does: verb, service: name },
    undo: [], // each step is complete in itself, and the next task continues from there
  }))
  return { kind: 'lifecycle', phases: [{ name: 'run', title: TITLES[verb], steps }] }
}
