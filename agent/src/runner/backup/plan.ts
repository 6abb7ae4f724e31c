// Plans a backup or a restore of the data of the last successful deployment. PURE. A restore stops nothing before all
// of the backup is checked and unpacked; its second phase cannot be canceled.
import { type DockerSection, isDatabaseImage } from '@berth/shared/service-file'
import {
  type BackupVerb,
  type DockerPlan,
  isDockerPlan,
  type LastPlan,
  type Plan,
  type PlannedStep,
  type RestoreVerb,
} from '../plan/plan.ts'

type DockerService = DockerSection['services'][number]
export type ServiceWithCommand = DockerService & { backup: NonNullable<DockerService['backup']> }

const hasCommand = (service: DockerService): service is ServiceWithCommand =>
  (service.backup ?? null) !== null // absent in plans of earlier versions

/** Services whose own command makes their backup. */
export const commandServices = ({ section }: DockerPlan): ServiceWithCommand[] =>
  section.services.filter(hasCommand)

/** Volumes to archive, in the order of the file: all but those that only services with a command use. */
export function archivedVolumes({ section }: DockerPlan): string[] {
  const { services } = section
  const used = services.flatMap(({ volumes }) => volumes.map(({ name }) => name))
  const byCommand = (name: string): boolean => {
    const users = services.filter(({ volumes }) => volumes.some((volume) => volume.name === name))
    return users.length > 0 && users.every(hasCommand)
  }
  return [...new Set([...section.volumes, ...used])].filter((name) => !byCommand(name))
}

/** Services that use one of these volumes, by name. */
export const usersOf = ({ section }: DockerPlan, names: readonly string[]): Set<string> =>
  new Set(
    section.services
      .filter(({ volumes }) => volumes.some((volume) => names.includes(volume.name)))
      .map(({ name }) => name),
  )

/** Services with a known database, a volume and no command: their archive is that of a power cut. */
export const databasesWithoutCommand = ({ section }: DockerPlan): string[] =>
  section.services
    .filter(
      (service) =>
        service.volumes.length > 0 && !hasCommand(service) && isDatabaseImage(service.image ?? ''),
    )
    .map(({ name }) => name)

const step = (does: BackupVerb, title: string, service = ''): PlannedStep => ({
  id: service === '' ? does : `${does}:${service}`,
  title,
  work: { kind: 'backup', does, service },
  undo: [{ kind: 'data' }],
})

export function planBackup(
  last: LastPlan | null | undefined,
  asked: { isBucket: boolean; expired: number },
): Plan {
  const commands = isDockerPlan(last) ? commandServices(last) : []
  const hasArchive = last && (!isDockerPlan(last) || archivedVolumes(last).length > 0)
  const what = isDockerPlan(last) ? 'Archive the volumes' : 'Archive the shared folder'
  const steps = [
    step('prepare', 'Look what there is'),
    ...commands.map(({ name }) => step('command', `Run the backup command of ${name}`, name)),
    ...(hasArchive ? [step('archive', what)] : []),
    ...(asked.isBucket ? [step('store', 'Upload it')] : []),
    step('finish', 'Keep it'),
    ...(asked.expired > 0 ? [{ ...step('prune', 'Remove old backups'), undo: [] }] : []),
  ]
  return { kind: 'backup', phases: [{ name: 'run', title: 'Back up', steps }] }
}

const restoreStep = (does: RestoreVerb, title: string): PlannedStep => ({
  id: does,
  title,
  work: { kind: 'restore', does },
  undo: [{ kind: 'data' }],
})

export const planRestore = (): Plan => ({
  kind: 'restore',
  phases: [
    {
      name: 'run',
      title: 'Check',
      steps: [
        restoreStep('prepare', 'Look at the backup'),
        restoreStep('stage', 'Check and unpack it'),
      ],
    },
    {
      name: 'verify',
      title: 'Replace',
      steps: [restoreStep('replace', 'Replace the data and start the services')],
    },
  ],
})
