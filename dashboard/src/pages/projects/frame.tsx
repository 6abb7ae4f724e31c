// The header of every tab of a project.
import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'
import { problemOf } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { say } from '../../components/toast.tsx'
import { type Project, useEnvironments, useProject } from '../../data.ts'
import { repositoryName } from '../../format.ts'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'

/** The page watched the deletion to its end. */
function Deleted({ name }: { name: string }) {
  const navigate = useNavigate()
  useEffect(() => {
    say(`${name} was deleted.`)
    void navigate({ to: '/' })
  }, [name, navigate])
  return null
}

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
  const isMissing = project.isError && problemOf(project.error).status === 404
  if (isMissing && project.data?.status === 'deleting') return <Deleted name={project.data.name} />
  if (isMissing || project.data === undefined) {
    return (
      <Loaded
        query={project}
        what="The project"
        missing={<NotFound />}
        frame={(state) => <Page title="Project">{state}</Page>}
      >
        {() => null}
      </Loaded>
    )
  }
  const p = project.data
  return (
    <Page
      title={tab === 'Environments' ? p.name : `${tab} · ${p.name}`}
      heading={p.name}
      trail={<Link to="/">Projects</Link>}
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
          This project is being deleted. Its environments are removed one after the other.
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
  )
}
