// The header of every tab of an environment: its state, its lock, what changed, its owner.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { buttonClass } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { Menu } from '../../components/menu.tsx'
import { Page } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { Moment, Time } from '../../components/time.tsx'
import { type Environment, useEnvironment, useProject, useServers } from '../../data.ts'
import { short } from '../../format.ts'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'
import { DeployButton, isReadOnly, LockLine } from './bits.tsx'
import { LifecycleMenu } from './lifecycle.tsx'

const isSame = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase()

interface FrameProps {
  tab: string
  children(environment: Environment): ReactNode
}

export function EnvironmentFrame({ tab, children }: FrameProps) {
  const id = useId()
  const environment = useEnvironment(id)
  return (
    <Loaded query={environment} what="The environment" missing={<NotFound />}>
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
      actions={
        <>
          <Visit environment={e} />
          <LifecycleMenu environment={e} />
          <DeployButton environment={e} />
        </>
      }
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

function FactLine({ environment: e }: { environment: Environment }) {
  return (
    <>
      <Status of={e.status} />
      <span>
        {e.branch} <code>{short(e.commit_sha ?? e.target_sha)}</code>
      </span>
      {e.deployed && <Time at={e.deployed.at} />}
      <Link to="/servers/$id" params={{ id: String(e.server.id) }}>
        {e.server.name}
      </Link>
      <span>
        {e.recipe}
        {e.recipe_inherited && ' (project default)'}
      </span>
      <span>
        {e.protected
          ? 'no auto-deploy while protected'
          : `auto-deploy ${e.auto_deploy ? 'on' : 'off'}`}
      </span>
      {e.pull_request && (
        <a href={e.pull_request.url} rel="noreferrer">
          PR #{e.pull_request.number}
        </a>
      )}
      {e.protected && (
        <span className="with-icon">
          <Icon name="lock" /> Protected by {e.owner.name}
        </span>
      )}
    </>
  )
}

function Visit({ environment: e }: { environment: Environment }) {
  const reachable = e.services.filter((s) => s.url !== null)
  if (!e.url || !e.commit_sha) return null
  if (reachable.length < 2) {
    return (
      <a href={reachable[0]?.url ?? e.url} rel="noreferrer" className={buttonClass('plain')}>
        Visit <Icon name="out" size={12} />
      </a>
    )
  }
  return (
    <Menu
      label="Visit"
      kind="plain"
      face={
        <>
          Visit <Icon name="down" size={12} />
        </>
      }
    >
      {reachable.map((s) => (
        <a key={s.name} href={s.url ?? ''} rel="noreferrer">
          {s.name}: {s.url}
        </a>
      ))}
    </Menu>
  )
}

function Notes({ environment: e }: { environment: Environment }) {
  const server = useServers().data?.servers.find((s) => s.id === e.server.id)
  return (
    <>
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
            Logs
          </Link>
        </Note>
      )}
      {e.status !== 'degraded' && e.stopped && e.status_reason && <Note>{e.status_reason}</Note>}
      {e.status === 'failed' && e.status_reason && <Note kind="bad">{e.status_reason}</Note>}
      {e.branch_missing && <Note kind="warn">The branch {e.branch} is gone at the host.</Note>}
      {e.pinned && (
        <Note>
          It stays at the chosen commit until the next push, or until its branch is deployed.
        </Note>
      )}
      {server?.status === 'offline' && (
        <Note kind="warn">
          {server.name} offline
          {server.last_seen_at && (
            <>
              {' '}
              since <Moment at={server.last_seen_at} />
            </>
          )}
          . A deployment waits up to 15 minutes for it.
        </Note>
      )}
      {server?.status === 'pending' && (
        <Note kind="warn">
          {server.name} has not joined yet.{' '}
          <Link to="/servers/$id" params={{ id: String(server.id) }}>
            See how
          </Link>
        </Note>
      )}
    </>
  )
}
