// The first page: the projects of the current organization with a search, what waits for the user, and the newest
// deployments across projects. A checklist leads to the first deployment.
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { trpc } from '../../../api.ts'
import { buttonClass } from '../../../components/button.tsx'
import { Icon } from '../../../components/icon.tsx'
import { Page } from '../../../components/page.tsx'
import { Empty, Loaded } from '../../../components/states.tsx'
import { Status } from '../../../components/status.tsx'
import { Time } from '../../../components/time.tsx'
import { type Server, useOverview, useProjects, useServers } from '../../../data.ts'
import { count, repositoryName } from '../../../format.ts'
import { useOrganization, usePermission } from '../../../organization.ts'
import { Activity } from './activity.tsx'
import { FirstRun } from './first-run.tsx'
import css from './projects.module.css'
import { WaitsForYou } from './waiting.tsx'
import type { Environments, ListedProject } from './watched.ts'

const SHOWN = 4

export function Projects() {
  const organization = useOrganization()
  const mayCreate = usePermission('project:write')
  const isEmpty = useProjects().data?.projects.length === 0
  return (
    <Page
      title="Projects"
      actions={
        mayCreate && (
          <Link to="/projects/new" className={buttonClass(isEmpty ? 'plain' : 'main')}>
            <Icon name="plus" /> New project
          </Link>
        )
      }
    >
      {organization === undefined ? (
        <Empty title="You are not a member of any organization">
          <p>Ask a member for an invitation.</p>
        </Empty>
      ) : (
        <Home key={organization.id} organizationId={organization.id} mayCreate={mayCreate} />
      )}
    </Page>
  )
}

function Home({ organizationId, mayCreate }: { organizationId: number; mayCreate: boolean }) {
  const projects = useProjects()
  const servers = useServers().data?.servers ?? []
  const overview = useOverview()
  const forges = useQuery({
    ...trpc.forge.list.queryOptions({ organization_id: organizationId }),
    enabled: mayCreate,
  })
  const list = projects.data?.projects ?? []
  const answers = useQueries({
    queries: list.map((p) => trpc.environment.list.queryOptions({ project_id: p.id })),
  })
  const environments: Environments = new Map(
    list.flatMap((p, n) => {
      const found = answers[n]?.data
      return found ? [[p.id, found] as const] : []
    }),
  )
  // all parts appear together, so that none pushes another away; later changes do not hide the page again
  const isReady = useRef(false)
  isReady.current ||=
    projects.data !== undefined &&
    !overview.isPending &&
    !(mayCreate && forges.isPending) &&
    answers.every(({ isPending }) => !isPending)
  const shown = { ...projects, data: isReady.current ? projects.data : undefined }
  return (
    <Loaded query={shown} what="Projects" lines={6}>
      {() => (
        <>
          {mayCreate && forges.data && (
            <FirstRun
              organizationId={organizationId}
              connections={forges.data.connections.length}
              projects={list}
              servers={servers}
              environments={environments}
              overview={overview.data}
            />
          )}
          <div className={css.columns}>
            <div className={css.aside}>
              <WaitsForYou
                projects={list}
                servers={servers}
                environments={environments}
                overview={overview.data}
              />
            </div>
            <List projects={list} servers={servers} environments={environments} />
            {list.length > 0 && <Activity query={overview} />}
          </div>
        </>
      )}
    </Loaded>
  )
}

interface ListProps {
  projects: readonly ListedProject[]
  servers: readonly Server[]
  environments: Environments
}

const matches = (p: ListedProject, typed: string): boolean =>
  `${p.name} ${p.repo_url} ${p.domain}`.toLowerCase().includes(typed.trim().toLowerCase())

function List({ projects, servers, environments }: ListProps) {
  const [typed, type] = useState('')
  if (projects.length === 0) {
    return (
      <div className={css.whole}>
        <Empty title="No projects yet">
          <p>A project is a repository with a domain and a server.</p>
        </Empty>
      </div>
    )
  }
  const found = projects.filter((p) => matches(p, typed))
  return (
    <section className={css.main} aria-label="All projects">
      <input
        type="search"
        data-filter=""
        className={css.filter}
        aria-label="Search projects"
        placeholder="Search projects…"
        value={typed}
        onChange={(event) => type(event.currentTarget.value)}
      />
      {found.length === 0 ? (
        <Empty title={`No project matches “${typed.trim()}”.`} />
      ) : (
        <ul className={css.list}>
          {found.map((p) => (
            <ProjectRow
              key={p.id}
              project={p}
              servers={servers}
              environments={environments.get(p.id)}
            />
          ))}
        </ul>
      )}
    </section>
  )
}

interface RowProps {
  project: ListedProject
  servers: readonly Server[]
  environments: ReturnType<Environments['get']>
}

function ProjectRow({ project: p, servers, environments: list }: RowProps) {
  const shown = list?.environments.slice(0, SHOWN) ?? []
  const more = (list?.environments.length ?? 0) - shown.length
  const isAway = (id: number) => servers.find((known) => known.id === id)?.status === 'offline'
  return (
    <li className={css.project} data-row="">
      <div className={css.line}>
        <Link to="/projects/$id" params={{ id: String(p.id) }} className={css.name}>
          {p.name}
        </Link>
        <span className={css.soft}>
          {list ? `${list.used}/${list.limit}` : count(p.environment_count, 'env')}
          {list && <span className="visually-hidden"> environments</span>}
        </span>
      </div>
      <div className={css.about}>
        <span>{repositoryName(p.repo_url)}</span>
        <span>{p.domain}</span>
        {p.servers.map((s) => (
          <Link key={s.id} to="/servers/$id" params={{ id: String(s.id) }} className={css.server}>
            {isAway(s.id) ? <Status of="offline" word={`${s.name} offline`} /> : s.name}
          </Link>
        ))}
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
