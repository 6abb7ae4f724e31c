// Plans the docker recipe (images, containers and routes from `docker:` of the service file). PURE: turns the section
// and the last successful plan into phases of steps. Only this file decides the order of services: dependencies first,
// and within one rank the order of the file.
import type { DockerSection, DockerService } from '@berth/shared/service-file'
import type { DockerVerb, LastPlan, Made, Phase, Plan, PlannedStep } from '../plan/plan.ts'

const step = (does: DockerVerb, title: string, undo: Made[] = [], service = ''): PlannedStep => ({
  id: service ? `${does}:${service}` : does,
  title,
  work: { kind: 'docker', does, service },
  undo,
})

const CONTAINERS: Made[] = [{ kind: 'containers' }]
const IMAGES: Made[] = [{ kind: 'images' }]

const checkout = (): Phase => ({
  name: 'checkout',
  title: 'Check out',
  steps: [
    step('admit', 'Check the server'),
    { id: 'fetch', title: 'Fetch the commit', work: { kind: 'fetch' }, undo: [] },
    {
      id: 'unpack',
      title: 'Unpack the files',
      work: { kind: 'unpack' },
      undo: [{ kind: 'release' }],
    },
  ],
})

const configure = (): Phase => ({
  name: 'configure',
  title: 'Configure',
  steps: [
    { id: 'read-config', title: 'Read .service.yml', work: { kind: 'read-config' }, undo: [] },
    step('claim-hosts', 'Claim host names', [{ kind: 'pages' }]),
    step('variables', 'Write variables', [{ kind: 'variables' }]),
  ],
})

/** What is known before the file is read; the full plan begins with exactly these steps. */
export const planDockerCheckout = (): Plan => ({
  kind: 'deploy',
  phases: [checkout(), configure()],
})

/** 0 without dependencies, otherwise one more than its highest dependency. The file has no cycles. */
function rankOf(services: readonly DockerService[], name: string): number {
  const found = services.find((service) => service.name === name)
  const ranks = (found?.dependsOn ?? []).map((other) => rankOf(services, other) + 1)
  return Math.max(0, ...ranks)
}

/** Services in ranks; services of one rank are independent of each other. */
export function inRanks(services: readonly DockerService[]): DockerService[][] {
  const ranks: DockerService[][] = []
  for (const service of services) {
    const rank = rankOf(services, service.name)
    while (ranks.length <= rank) ranks.push([])
    ranks[rank]?.push(service)
  }
  return ranks
}

/** Everything that must be up before some `release` command runs. */
export function releaseDependencies(services: readonly DockerService[]): Set<string> {
  const needed = new Set<string>()
  const visit = (name: string): void => {
    for (const other of services.find((service) => service.name === name)?.dependsOn ?? []) {
      if (needed.has(other)) continue
      needed.add(other)
      visit(other)
    }
  }
  for (const service of services) if (service.release !== null) visit(service.name)
  return needed
}

const imageStep = ({ name, build }: DockerService): PlannedStep =>
  build ? step('build', `Build ${name}`, IMAGES, name) : step('pull', `Pull ${name}`, IMAGES, name)

/** A service that others need and that has its own release command runs that command first, then starts. */
function releaseSteps(services: readonly DockerService[]): PlannedStep[] {
  const needed = releaseDependencies(services)
  return inRanks(services)
    .flat()
    .flatMap(({ name, release }) => [
      ...(release === null
        ? []
        : [step('release', `Run the release command of ${name}`, CONTAINERS, name)]),
      ...(needed.has(name) ? [step('dependency', `Bring up ${name}`, CONTAINERS, name)] : []),
    ])
}

function startSteps(services: readonly DockerService[]): PlannedStep[] {
  const isUp = releaseDependencies(services)
  const ranks = inRanks(services).map((rank) => rank.filter(({ name }) => !isUp.has(name)))
  return ranks.flatMap((rank) => [
    ...rank.map(({ name }) => step('start', `Start ${name}`, CONTAINERS, name)),
    ...rank.map(({ name }) => step('health', `Wait for ${name}`, [], name)),
  ])
}

function stopTitle(last: LastPlan | undefined): string {
  return last ? `Stop what deployment ${last.taskId} left` : 'Stop the version before'
}

/** `fresh` removes the previous data once every check that fails cheaply has passed. */
export function planDocker(
  section: DockerSection,
  last: LastPlan | undefined,
  asked: { fresh: boolean } = { fresh: false },
): Plan {
  const { services } = section
  const reset = asked.fresh ? [step('reset', 'Remove what was there')] : []
  const phases: Phase[] = [
    checkout(),
    configure(),
    { name: 'build', title: 'Build', steps: services.map(imageStep) },
    { name: 'release', title: 'Release', steps: [...reset, ...releaseSteps(services)] },
    {
      name: 'start',
      title: 'Start',
      steps: [step('network', 'Prepare the network', CONTAINERS), ...startSteps(services)],
    },
    {
      name: 'route',
      title: 'Route',
      steps: [step('switch', 'Switch the traffic', [{ kind: 'routes' }])],
    },
    {
      name: 'verify',
      title: 'Verify',
      steps: services.map(({ name }) => step('verify', `Verify ${name}`, [], name)),
    },
    {
      name: 'cleanup',
      title: 'Clean up',
      steps: [
        step('drain', 'Let running requests end'),
        step('stop-old', stopTitle(asked.fresh ? undefined : last)),
        step('collect', 'Remove what is not needed any more'),
      ],
    },
  ]
  return { kind: 'deploy', phases: phases.filter(({ steps }) => steps.length > 0) }
}
