// The header of every tab of a project.
import type { ReactNode } from 'react'
import { Page } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { type Project, useEnvironments, useProject } from '../../data.ts'
import { repositoryName } from '../../format.ts'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'

interface FrameProps {
  tab: string
  actions?(project: Project): ReactNode
  children(project: Project): ReactNode
}

export function ProjectFrame({ tab, actions, children }: FrameProps) {
  const id = useId()
  const project = useProject(id)
  const list = useEnvironments(id).data
  useOrganizationOf(project.data?.organization_id)
  const base = `/projects/${id}`
  return (
    <Loaded query={project} what="The project" missing={<NotFound />}>
      {(p) => (
        <Page
          title={tab === 'Environments' ? p.name : `${tab} · ${p.name}`}
          heading={p.name}
          actions={actions?.(p)}
          facts={
            <>
              <span>
                {repositoryName(p.repo_url)} · {p.default_branch}
              </span>
              {list && (
                <span>
                  {list.used}/{list.limit} environments
                </span>
              )}
            </>
          }
        >
          {p.status === 'deleting' && (
            <Note kind="warn">
              This project is being deleted. Its environments are removed one after the other; the
              page closes with the last one.
            </Note>
          )}
          <Tabs
            label={`Pages of ${p.name}`}
            tabs={[
              { to: base, label: 'Environments', isExact: true },
              { to: `${base}/deployments`, label: 'Deployments' },
              { to: `${base}/variables`, label: 'Variables' },
              { to: `${base}/webhooks`, label: 'Webhooks' },
              { to: `${base}/settings`, label: 'Settings' },
            ]}
          />
          {children(p)}
        </Page>
      )}
    </Loaded>
  )
}
