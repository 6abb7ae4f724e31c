// The header of every tab of an environment: its state, its lock, what changed, its owner.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { buttonClass } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { Page } from '../../components/page.tsx'
import { Loaded, Note, unnamed } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { Moment } from '../../components/time.tsx'
import { type Environment, useEnvironment, useProject, useServers } from '../../data.ts'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'
import { DeployButton, isReadOnly, LockLine } from './bits.tsx'

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()

interface FrameProps {
  tab: string
  /** Parts of the tab that it appears with. */
  also?: readonly { isLoading: boolean }[]
  children(environment: Environment): ReactNode
}

export function EnvironmentFrame({ tab, also = [], children }: FrameProps) {
  const id = useId()
  const environment = useEnvironment(id)
  // a server that is away is noted above the tabs
  const parts = [useServers(), ...also]
  return (
    <Loaded
      query={environment}
      also={parts}
      what="The environment"
      missing={<NotFound />}
      frame={(state) =>
        environment.isError ? (
          <Page title="Environment">{state}</Page>
        ) : (
          unnamed('Environment', state)
        )
      }
    >
      {(e) => <Full environment={e} tab={tab} content={children(e)} />}
    </Loaded>
  )
}

function Full({
  environment: e,
  tab,
  content,
}: {
  environment: Environment
  tab: string
  content: ReactNode
}) {
  const project = useProject(e.project_id).data
  useOrganizationOf(project?.organization_id)
  const base = `/environments/${e.id}`
  const name = project ? `${e.identifier} · ${project.name}` : e.identifier
  return (
    <Page
      title={tab === 'Overview' ? name : `${tab} · ${name}`}
      heading={isSame(e.title, e.identifier) ? e.identifier : `${e.identifier} ${e.title}`}
      trail={
        <Link to="/projects/$id" params={{ id: String(e.project_id) }}>
          {project?.name ?? 'Project'}
        </Link>
      }
      actions={tab !== 'Overview' && <HeadActions environment={e} tab={tab} />}
      facts={<FactLine environment={e} />}
    >
      <Notes environment={e} />
      <Tabs
        label={`Pages of ${e.identifier}`}
        tabs={[
          { to: base, label: 'Overview', isExact: true },
          { to: `${base}/deployments`, label: 'Deployments' },
          { to: `${base}/logs`, label: 'Logs' },
          { to: `${base}/variables`, label: 'Variables' },
          { to: `${base}/actions`, label: 'Actions' },
          { to: `${base}/backups`, label: 'Backups' },
          { to: `${base}/settings`, label: 'Settings' },
        ]}
      />
      {content}
    </Page>
  )
}

/** Their main action saves the form. */
const FORMS = ['Backups', 'Settings']

/** On the overview, the address has its own place with all actions. */
function HeadActions({ environment: e, tab }: { environment: Environment; tab: string }) {
  return (
    <>
      {e.url && e.commit_sha && (
        <a href={e.url} rel="noreferrer" className={buttonClass('plain')}>
          Visit <Icon name="out" size={12} />
        </a>
      )}
      <DeployButton environment={e} kind={FORMS.includes(tab) ? 'plain' : 'main'} />
    </>
  )
}

function FactLine({ environment: e }: { environment: Environment }) {
  return (
    <>
      <Status of={e.status} />
      {e.protected && (
        <span className="with-icon">
          <Icon name="lock" /> Protected by {e.owner.name}
        </span>
      )}
      <span>{deployWords(e)}</span>
    </>
  )
}

const deployWords = (e: Environment): string =>
  e.protected || !e.auto_deploy ? 'Deploys by hand' : `Deploys on push to ${e.branch}`

function Notes({ environment: e }: { environment: Environment }) {
  return (
    <>
      {e.status === 'removing' && <Note>This environment is being removed.</Note>}
      {e.locked && (
        <Note>
          <LockLine environment={e} />
        </Note>
      )}
      {isReadOnly(e) && <Note>Only {e.owner.name} can change this environment.</Note>}
      {e.status === 'degraded' && e.status_reason && (
        <Note kind="warn">
          Degraded: {e.status_reason}{' '}
          <Link to="/environments/$id/logs" params={{ id: String(e.id) }}>
            View logs
          </Link>
        </Note>
      )}
      {e.status !== 'degraded' && e.stopped && e.status_reason && <Note>{e.status_reason}</Note>}
      {e.status === 'failed' && e.status_reason && <Note kind="bad">{e.status_reason}</Note>}
      {e.branch_missing && (
        <Note kind="warn">
          The branch {e.branch} no longer exists. Choose another one in{' '}
          <Link to="/environments/$id/settings" params={{ id: String(e.id) }}>
            Settings
          </Link>
          .
        </Note>
      )}
      {e.pinned && <Note>Pinned to this commit until the next push or deployment.</Note>}
      <ServerNote environment={e} />
    </>
  )
}

function ServerNote({ environment: e }: { environment: Environment }) {
  const server = useServers().data?.servers.find((s) => s.id === e.server.id)
  if (!server) return null
  if (server.status === 'offline') {
    return (
      <Note kind="warn">
        {server.name} {server.last_seen_at ? 'has been offline since ' : 'is offline'}
        {server.last_seen_at && <Moment at={server.last_seen_at} />}. A deployment waits up to 15
        minutes for it.
      </Note>
    )
  }
  if (server.status === 'pending') {
    return (
      <Note kind="warn">
        {server.name} has not joined yet.{' '}
        <Link to="/servers/$id" params={{ id: String(server.id) }}>
          Set it up
        </Link>
      </Note>
    )
  }
  if (!server.paused) return null
  return (
    <Note>
      {server.name} is paused{server.paused_by ? ` by ${server.paused_by.name}` : ''}. Deployments
      wait until it is resumed; what runs goes on.
    </Note>
  )
}
