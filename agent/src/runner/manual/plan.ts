// Plans the manual recipe (the repository's own commands, and processes that Berth keeps running). PURE: turns facts,
// the service file and the last successful plan into phases of steps. Every check of the platform is an ordinary step,
// so a failed check needs no special case.
import type { ManualSection, ManualService } from '@berth/shared/service-file'
import {
  isManualPlan,
  type LastPlan,
  type Made,
  type Phase,
  type Plan,
  type PlannedStep,
  type PlatformWork,
} from '../plan/plan.ts'

type Replacement = 'beside' | 'after'

/**
 * With `port: auto` two versions run side by side until the new one is healthy. A fixed port, a socket or a process
 * without an address exists once, so the old process ends before the new one starts.
 */
export const replacementOf = (service: ManualService): Replacement =>
  service.target?.kind === 'auto' ? 'beside' : 'after'

const step = (id: PlatformWork, title: string, undo: Made[] = []): PlannedStep => ({
  id,
  title,
  work: { kind: id },
  undo,
})

const checkout = (): Phase => ({
  name: 'checkout',
  title: 'Check out',
  steps: [
    step('admit', 'Check the server'),
    step('account', 'Prepare the account and folders'),
    step('fetch', 'Fetch the commit'),
    step('unpack', 'Unpack the files', [{ kind: 'release' }]),
  ],
})

const configure = (): Phase => ({
  name: 'configure',
  title: 'Configure',
  steps: [
    step('read-config', 'Read .service.yml'),
    step('claim-hosts', 'Claim host names', [{ kind: 'pages' }]),
    step('ports', 'Choose ports', [{ kind: 'ports' }]),
    step('variables', 'Write variables', [{ kind: 'variables' }]),
  ],
})

/** What is known before the file is read; the full plan begins with exactly these steps. */
export const planCheckout = (): Plan => ({ kind: 'deploy', phases: [checkout(), configure()] })

const commandStep = (command: ManualSection['deploy'][number], index: number): PlannedStep => ({
  id: String(index + 1),
  title: command.title,
  work: { kind: 'command', step: command },
  undo: [{ kind: 'current' }], // a command may activate early (berth-activate)
})

/** A line of the Procfile; once per deployment, after the other commands. */
const releaseStep = (run: string): PlannedStep => ({
  id: 'release',
  title: 'Release',
  work: {
    kind: 'command',
    step: { title: 'Release', run, dir: null, env: {}, timeoutMs: null, allowFailure: false },
  },
  undo: [{ kind: 'current' }],
})

const startStep = ({ name }: ManualService): PlannedStep => ({
  id: `start:${name}`,
  title: `Start ${name}`,
  work: { kind: 'start', service: name },
  undo: [{ kind: 'process', service: name }],
})

const healthStep = ({ name }: ManualService): PlannedStep => ({
  id: `health:${name}`,
  title: `Wait for ${name}`,
  work: { kind: 'health', service: name },
  undo: [],
})

const staticStep = ({ name }: ManualService): PlannedStep => ({
  id: `static:${name}`,
  title: `Copy the files of ${name}`,
  work: { kind: 'static', service: name },
  undo: [{ kind: 'static', service: name }],
})

const verifyStep = ({ name }: ManualService): PlannedStep => ({
  id: `verify:${name}`,
  title: `Verify ${name}`,
  work: { kind: 'verify', service: name },
  undo: [],
})

/**
 * Services that restart without a gap come first, so that a failure of one of them leaves everything else untouched.
 */
function startSteps(services: ManualService[]): PlannedStep[] {
  const kept = services.filter(({ run }) => run !== null)
  const beside = kept.filter((service) => replacementOf(service) === 'beside')
  const after = kept.filter((service) => replacementOf(service) === 'after')
  return [
    ...beside.map(startStep),
    ...beside.map(healthStep),
    ...after.flatMap((service) => [startStep(service), healthStep(service)]),
  ]
}

/**
 * A repository that restarts its application itself does so in its commands, in the folder that `current` points to by
 * then.
 */
function routeSteps(services: ManualService[]): PlannedStep[] {
  const isStatic = ({ target }: ManualService): boolean => target?.kind === 'root'
  const others = services.filter((service) => service.run === null && !isStatic(service))
  return [
    step('activate', 'Make it the current version', [{ kind: 'current' }]),
    ...others.map(healthStep),
    ...services.filter(isStatic).map(staticStep),
    step('switch', 'Switch the traffic', [{ kind: 'routes' }]),
  ]
}

function stopTitle(last: LastPlan | undefined): string {
  if (!isManualPlan(last)) return 'Stop the version before'
  const names = last.section.services.filter(({ run }) => run !== null).map(({ name }) => name)
  if (names.length === 0) return 'Stop the version before'
  return `Stop ${names.join(', ')} of deployment ${last.taskId}`
}

/** `fresh` removes the previous data once every check that fails cheaply has passed. */
export function planManual(
  section: ManualSection,
  last: LastPlan | undefined,
  asked: { fresh: boolean; reused: boolean } = { fresh: false, reused: false },
): Plan {
  const before = asked.fresh
    ? [step('reset', 'Remove what was there')]
    : isManualPlan(last)
      ? [step('written-files', 'Look for files of the application')]
      : []
  const share = section.shared?.length ? [step('share', 'Link shared files')] : []
  const hasTools = Object.keys(section.tools ?? {}).length > 0
  const tools = hasTools ? [step('tools', 'Select tools')] : []
  // a kept release holds what they made
  const release = section.release ? [releaseStep(section.release)] : []
  const commands = asked.reused ? [] : [...section.deploy.map(commandStep), ...release]
  const starts = startSteps(section.services)
  const verifies = section.services.map(verifyStep)
  const phases: Phase[] = [
    checkout(),
    configure(),
    { name: 'run', title: 'Run', steps: [...before, ...share, ...tools, ...commands] },
    { name: 'start', title: 'Start', steps: starts },
    { name: 'route', title: 'Route', steps: routeSteps(section.services) },
    { name: 'verify', title: 'Verify', steps: verifies },
    {
      name: 'cleanup',
      title: 'Clean up',
      steps: [
        step('drain', 'Let running requests end'),
        step('stop-old', stopTitle(asked.fresh ? undefined : last)),
        step('collect', 'Remove old releases'),
      ],
    },
  ]
  return { kind: 'deploy', phases: phases.filter(({ steps }) => steps.length > 0) }
}
