// The frame of a project's settings: the tabs of the project, and the parts of the settings beside the page.
import type { ReactNode } from 'react'
import { SideNav } from '../../../components/navigation/side-nav.tsx'
import type { Project } from '../../../data.ts'
import { usePermission } from '../../../organization.ts'
import { ProjectFrame } from '../frame.tsx'

/** The parts, in the order of the navigation; `of` is the last piece of the address. */
const PARTS = [
  { of: '', label: 'General' },
  { of: 'domains', label: 'Domains' },
  { of: 'access', label: 'Access' },
  { of: 'limits', label: 'Limits' },
  { of: 'repository', label: 'Repository and forge', group: 'Code' },
  { of: 'pull-requests', label: 'Pull requests' },
  { of: 'registries', label: 'Image registries' },
  { of: 'usage', label: 'Usage', group: 'Operations' },
  { of: 'schedules', label: 'Schedules' },
  { of: 'backups', label: 'Backups' },
  { of: 'notifications', label: 'Notifications' },
  { of: 'delete', label: 'Delete project', group: 'Danger' },
] as const

export type PartName = (typeof PARTS)[number]['of']

interface Props {
  part: PartName
  children(project: Project, reason: string | undefined): ReactNode
}

export function SettingsFrame({ part, children }: Props) {
  const reason = usePermission('project:write')
    ? undefined
    : 'Your role does not let you change this project.'
  const label = PARTS.find(({ of }) => of === part)?.label ?? 'Settings'
  return (
    <ProjectFrame tab={part === '' ? 'Settings' : label}>
      {(p) => (
        <SideNav
          label={`Settings of ${p.name}`}
          links={PARTS.map(({ of, label, ...rest }) => ({
            to: `/projects/${p.id}/settings${of === '' ? '' : `/${of}`}`,
            label,
            isExact: of === '',
            ...rest,
          }))}
        >
          {children(p, reason)}
        </SideNav>
      )}
    </ProjectFrame>
  )
}
