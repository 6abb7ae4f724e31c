// The projects of the current organization, each with its environments. Without projects it shows the three steps to
// the first preview, ticked off as they happen.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { buttonClass } from '../../components/button.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Icon } from '../../components/icon.tsx'
import { Page } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Time } from '../../components/time.tsx'
import { type Server, useEnvironments, useProjects, useServers } from '../../data.ts'
import { count, repositoryName } from '../../format.ts'
import { useOrganization, usePermission } from '../../organization.ts'
import css from './projects.module.css'

type Listed = NonNullable<ReturnType<typeof useProjects>['data']>['projects'][number]
const SHOWN = 6
const FILTER_FROM = 5

export function Projects() {
  const projects = useProjects()
  const servers = useServers()
  const organization = useOrganization()
  const mayCreate = usePermission('project:write')
  const [filter, setFilter] = useState('')
  return (
    <Page
      title="Projects"
      actions={
        mayCreate && (
          <Link to="/projects/new" className={buttonClass('main')}>
            <Icon name="plus" /> New project
          </Link>
        )
      }
    >
      {organization === undefined ? (
        <Empty title="You are not a member of any organization.">
          <p>Ask a member for an invitation.</p>
        </Empty>
      ) : (
        <Loaded query={projects} what="Projects">
          {({ projects: list }) =>
            list.length === 0 ? (
              <FirstSteps servers={servers.data?.servers ?? []} />
            ) : (
              <>
                {list.length >= FILTER_FROM && (
                  <input
                    type="search"
                    data-filter=""
                    className={css.filter}
                    aria-label="Filter projects"
                    placeholder="Filter (/)"
                    value={filter}
                    onChange={(event) => setFilter(event.currentTarget.value)}
                  />
                )}
                <ul className={css.list}>
                  {list
                    .filter((p) => p.name.toLowerCase().includes(filter.toLowerCase()))
                    .map((p) => (
                      <ProjectRow key={p.id} project={p} servers={servers.data?.servers ?? []} />
                    ))}
                </ul>
              </>
            )
          }
        </Loaded>
      )}
    </Page>
  )
}

function ProjectRow({ project, servers }: { project: Listed; servers: Server[] }) {
  const list = useEnvironments(project.id).data
  const shown = list?.environments.slice(0, SHOWN) ?? []
  const more = (list?.environments.length ?? 0) - shown.length
  return (
    <li className={css.project} data-row="">
      <div className={css.line}>
        <Link to="/projects/$id" params={{ id: String(project.id) }} className={css.name}>
          {project.name}
        </Link>
        <span className={css.soft}>{repositoryName(project.repo_url)}</span>
        <span className={css.soft}>{project.domain}</span>
        <span className={css.soft}>
          {list ? `${list.used}/${list.limit} envs` : count(project.environment_count, 'env')}
        </span>
        <span className={css.servers}>
          {project.servers.map((s) => (
            <Link key={s.id} to="/servers/$id" params={{ id: String(s.id) }} className={css.server}>
              <Status
                of={servers.find((known) => known.id === s.id)?.status ?? 'unknown'}
                word={s.name}
              />
            </Link>
          ))}
        </span>
      </div>
      {shown.length > 0 && (
        <ul className={css.environments}>
          {shown.map((e) => (
            <li key={e.id}>
              <Link
                to="/environments/$id"
                params={{ id: String(e.id) }}
                className={css.environment}
              >
                <Status of={e.status} word={e.identifier} />
                <span className={css.when}>
                  {e.locked ? 'deploying' : e.deployed ? <Time at={e.deployed.at} /> : e.status}
                </span>
              </Link>
            </li>
          ))}
          {more > 0 && <li className={css.soft}>and {more} more</li>}
        </ul>
      )}
    </li>
  )
}

function FirstSteps({ servers }: { servers: Server[] }) {
  const hasServer = servers.some((s) => s.joined_at !== null)
  return (
    <Empty title="No projects yet.">
      <ol className={css.steps}>
        <Step n={1} isDone={hasServer} title="Add a server" to="/servers?add=true">
          <CopyField label="command" text="berth server add fra-1 --hostname fra-1.example.com" />
        </Step>
        <Step n={2} isDone={false} title="Create a project" to="/projects/new">
          <CopyField
            label="command"
            text="berth project create shop --repo git@github.com:acme/shop.git --domain shop.example.com --server fra-1"
          />
        </Step>
        <Step n={3} isDone={false} title="Open a pull request">
          <p>Berth creates an environment for it, with its own address.</p>
        </Step>
      </ol>
    </Empty>
  )
}

interface StepProps {
  n: number
  isDone: boolean
  title: string
  to?: string
  children: React.ReactNode
}

function Step({ n, isDone, title, to, children }: StepProps) {
  return (
    <li className={css.step}>
      <span className={isDone ? css.done : css.number}>{isDone ? <Icon name="check" /> : n}</span>
      <div className="stack-small">
        <p className={css.stepTitle}>
          {to ? <Link to={to}>{title}</Link> : title}
          {isDone && <span className="muted"> · done</span>}
        </p>
        {children}
      </div>
    </li>
  )
}
