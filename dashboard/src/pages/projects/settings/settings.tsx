// The settings of a project, one part at each address.
import { useParams } from '@tanstack/react-router'
import type { ComponentType } from 'react'
import { Section } from '../../../components/page.tsx'
import { NotFound } from '../../not-found.tsx'
import { ProjectChannels } from '../../notices/project-channels.tsx'
import { Forge } from '../forge.tsx'
import { Registries } from '../registries.tsx'
import { Repository } from '../repository.tsx'
import { Access } from './access.tsx'
import { Deletion } from './deletion.tsx'
import { Domains } from './domains.tsx'
import { type PartName, SettingsFrame } from './frame.tsx'
import { General } from './general.tsx'
import { Limits } from './limits.tsx'
import { BackupsOf, SchedulesOf, UsageOf } from './operations.tsx'
import { PullRequests } from './pull-requests.tsx'

const PAGES: Record<PartName, ComponentType> = {
  '': () => (
    <SettingsFrame part="">{(p, reason) => <General project={p} reason={reason} />}</SettingsFrame>
  ),
  domains: () => (
    <SettingsFrame part="domains">
      {(p, reason) => <Domains project={p} reason={reason} />}
    </SettingsFrame>
  ),
  access: () => (
    <SettingsFrame part="access">
      {(p, reason) => (
        <Section title="Access">
          <Access project={p} reason={reason} />
        </Section>
      )}
    </SettingsFrame>
  ),
  limits: () => (
    <SettingsFrame part="limits">
      {(p, reason) => <Limits project={p} reason={reason} />}
    </SettingsFrame>
  ),
  repository: () => (
    <SettingsFrame part="repository">
      {(p, reason) => (
        <>
          <Forge project={p} reason={reason} />
          <Repository project={p} reason={reason} />
        </>
      )}
    </SettingsFrame>
  ),
  'pull-requests': () => (
    <SettingsFrame part="pull-requests">
      {(p, reason) => <PullRequests project={p} reason={reason} />}
    </SettingsFrame>
  ),
  registries: () => (
    <SettingsFrame part="registries">
      {(p, reason) => <Registries owner={{ project_id: p.id }} reason={reason} />}
    </SettingsFrame>
  ),
  usage: () => <SettingsFrame part="usage">{(p) => <UsageOf project={p} />}</SettingsFrame>,
  schedules: () => (
    <SettingsFrame part="schedules">{(p) => <SchedulesOf project={p} />}</SettingsFrame>
  ),
  backups: () => <SettingsFrame part="backups">{(p) => <BackupsOf project={p} />}</SettingsFrame>,
  notifications: () => (
    <SettingsFrame part="notifications">{(p) => <ProjectChannels project={p} />}</SettingsFrame>
  ),
  delete: () => (
    <SettingsFrame part="delete">
      {(p, reason) => <Deletion project={p} reason={reason} />}
    </SettingsFrame>
  ),
}

export function ProjectSettings() {
  const { part = '' } = useParams({ strict: false }) as { part?: string }
  if (!Object.hasOwn(PAGES, part)) return <NotFound />
  const Part = PAGES[part as PartName]
  return <Part />
}
