// The environments of a project, in the server's order, and the pull requests that wait for one.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Check, Select, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, text } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { Menu, MenuButton, MenuLink, MenuNote } from '../../components/menu.tsx'
import { Section } from '../../components/page.tsx'
import { Empty, Loaded } from '../../components/states.tsx'
import { Status } from '../../components/status.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Clock, Time } from '../../components/time.tsx'
import { say } from '../../components/toast.tsx'
import { type Environment, type Project, type PullRequest, useEnvironments } from '../../data.ts'
import { commitUrl, short } from '../../format.ts'
import { usePermission } from '../../organization.ts'
import { deployReason, isReadOnly } from '../environments/bits.tsx'
import { ProjectFrame } from './frame.tsx'
import css from './project.module.css'

export function ProjectEnvironments() {
  return (
    <ProjectFrame tab="Environments" actions={(p) => <NewEnvironment project={p} />}>
      {(p) => (
        <>
          <Environments project={p} />
          <Waiting project={p} />
        </>
      )}
    </ProjectFrame>
  )
}

function Environments({ project }: { project: Project }) {
  const list = useEnvironments(project.id)
  const [filter, setFilter] = useState('')
  return (
    <Loaded query={list} what="Environments">
      {({ environments }) =>
        environments.length === 0 ? (
          <Empty title="No environments yet">
            <p>
              Open a pull request, or create one for a branch:{' '}
              <code>berth env create staging --branch main</code>
            </p>
          </Empty>
        ) : (
          <div className="stack">
            <input
              type="search"
              data-filter=""
              className={css.filter}
              aria-label="Filter environments"
              placeholder="Filter (/)"
              value={filter}
              onChange={(event) => setFilter(event.currentTarget.value)}
            />
            <Table
              label="Environments"
              head={['Environment', 'Status', 'Kind', 'Version', 'Deployed', 'Address', 'More']}
            >
              {environments
                .filter((e) => matches(e, filter.toLowerCase()))
                .map((e) => (
                  <EnvironmentRow key={e.id} environment={e} />
                ))}
            </Table>
          </div>
        )
      }
    </Loaded>
  )
}

const matches = (e: Environment, filter: string): boolean =>
  `${e.identifier} ${e.title} ${e.branch}`.toLowerCase().includes(filter)

function EnvironmentRow({ environment: e }: { environment: Environment }) {
  return (
    <Row>
      <Cell of="Environment">
        <div className="stack-small">
          <span className="row">
            <Link to="/environments/$id" params={{ id: String(e.id) }} className={css.name}>
              {e.identifier}
            </Link>
            {e.sticky && (
              <span className={css.star} title="Sticky: stays at the top">
                <Icon name="star" />
                <span className="visually-hidden">Sticky</span>
              </span>
            )}
          </span>
          {e.title.toLowerCase() !== e.identifier && <span className="muted small">{e.title}</span>}
          {e.protected && (
            <span className="muted small with-icon">
              <Icon name="lock" /> Protected by {e.owner.name}
            </span>
          )}
          {e.variables_changed && (
            <span className={css.changed}>
              <Icon name="warning" /> Variables changed since the last deployment
            </span>
          )}
        </div>
      </Cell>
      <Cell of="Status" plain>
        <div className="stack-small">
          <Status of={e.status} />
          {e.status_reason && <span className="muted small">{e.status_reason}</span>}
        </div>
      </Cell>
      <Cell of="Kind" plain>
        {e.pull_request ? (
          <a href={e.pull_request.url}>PR #{e.pull_request.number}</a>
        ) : (
          <span className={css.manual}>Manual</span>
        )}
      </Cell>
      <Cell of="Version" plain>
        <span>
          {e.branch} <code>{short(e.commit_sha ?? e.target_sha)}</code>
        </span>
      </Cell>
      <Cell of="Deployed" plain>
        <Progress environment={e} />
      </Cell>
      <Cell of="Address" plain>
        {e.url && e.commit_sha ? (
          <a href={e.url} rel="noreferrer" className={css.visit}>
            Visit <Icon name="out" size={12} />
          </a>
        ) : (
          ''
        )}
      </Cell>
      <Cell of="More" end>
        <RowMenu environment={e} />
      </Cell>
    </Row>
  )
}

/** The phase and its clock during a deployment; otherwise the time of the last one. */
function Progress({ environment: e }: { environment: Environment }) {
  const taskId = e.locked_by?.task_id
  const task = useQuery({
    ...trpc.task.get.queryOptions({ task_id: taskId ?? 1 }),
    enabled: e.locked && taskId !== undefined,
  }).data
  if (e.locked && taskId !== undefined) {
    const phase = task?.phases?.find((p) => p.status === 'running')
    return (
      <Link to="/tasks/$id" params={{ id: String(taskId) }}>
        {phase ? phase.title : task?.status === 'queued' ? 'Queued' : 'In progress'}{' '}
        {(phase?.started_at ?? task?.created_at) && (
          <Clock since={phase?.started_at ?? task?.created_at ?? ''} />
        )}
      </Link>
    )
  }
  return e.deployed ? <Time at={e.deployed.at} /> : <>Never deployed</>
}

function RowMenu({ environment: e }: { environment: Environment }) {
  const reason = deployReason(e)
  const base = `/environments/${e.id}`
  const deploy = () => {
    change(api.environment.deploy.mutate({ environment_id: e.id })).then(
      () => say('Deployment started.'),
      (error: Error) => say(error.message),
    )
  }
  return (
    <Menu label={`More about ${e.identifier}`} face={<Icon name="more" />} small>
      {isReadOnly(e) ? (
        <MenuNote>Only {e.owner.name} can change this environment.</MenuNote>
      ) : reason ? (
        <MenuNote>{reason}</MenuNote>
      ) : (
        <MenuButton onClick={deploy}>Deploy</MenuButton>
      )}
      <MenuLink to={`${base}/deployments`}>Deployments</MenuLink>
      <MenuLink to={`${base}/logs`}>Logs</MenuLink>
      <MenuLink to={`${base}/variables`}>Variables</MenuLink>
      <MenuLink to={`${base}/settings`}>Settings</MenuLink>
    </Menu>
  )
}

function Waiting({ project }: { project: Project }) {
  const list = useQuery(trpc.pullRequest.list.queryOptions({ project_id: project.id })).data
  const waiting = list?.pull_requests.filter((p) => p.waiting_for !== null) ?? []
  if (waiting.length === 0) return null
  return (
    <Section title="Waiting">
      <ul className="stack-small">
        {waiting.map((p) => (
          <li key={p.number} className="row">
            <a href={p.url}>PR #{p.number}</a>
            <span>{p.title}</span>
            <span className="muted">{waitingWords(p)}</span>
            {p.waiting_for === 'approval' && p.head_sha && (
              <Review project={project} pull={p} sha={p.head_sha} />
            )}
          </li>
        ))}
      </ul>
    </Section>
  )
}

function waitingWords(p: PullRequest): string {
  if (p.waiting_for === 'approval') return `From a fork (${p.author}), needs approval`
  if (p.waiting_for === 'environment_limit')
    return `Waits for a free place (${ordinal(p.position ?? 1)})`
  if (p.waiting_for === 'server_not_ready') return 'Waits for a server that has joined'
  return 'Waits until its former environment is removed'
}

function ordinal(n: number): string {
  const teen = n % 100 > 10 && n % 100 < 14
  const end = teen ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')
  return `${n}${end}`
}

function Review({
  project,
  pull,
  sha: head,
}: {
  project: Project
  pull: PullRequest
  sha: string
}) {
  /** The reviewed commit: a push during the review must not change what the button approves. */
  const [reviewed, review] = useState<string>()
  const sha = reviewed ?? head
  const mayDeploy = usePermission('deploy')
  const diff = commitUrl(project.repo_url, sha, project.repository.provider)
  if (!mayDeploy) return null
  return (
    <>
      <Button small onClick={() => review(head)}>
        Review {short(head)}
      </Button>
      {reviewed && (
        <Ask
          title={`Approve PR #${pull.number}?`}
          submit={`Approve ${short(sha)}`}
          kind="main"
          onClose={() => review(undefined)}
          send={() =>
            change(
              api.pullRequest.approve.mutate({
                project_id: project.id,
                number: pull.number,
                head_sha: sha,
              }),
            )
          }
          done="Approved."
        >
          <p>
            {pull.author} wants the code of this commit to run on your server. It gets only
            variables that are marked for forks. The approval covers this commit only; a new push
            asks again.
          </p>
          <p>
            <code>{sha}</code>
          </p>
          <p>
            <a href={pull.url}>Pull request</a>
            {diff && (
              <>
                {' · '}
                <a href={diff}>Read what it changes</a>
              </>
            )}
          </p>
        </Ask>
      )}
    </>
  )
}

function NewEnvironment({ project }: { project: Project }) {
  const [isOpen, open] = useState(false)
  const navigate = useNavigate()
  const list = useEnvironments(project.id).data
  const mayWrite = usePermission('environment:write')
  if (!mayWrite || project.status === 'deleting') return null
  const isFull = list !== undefined && list.used >= list.limit
  const reason = isFull
    ? `${list.used}/${list.limit}. New pull requests wait until an environment is deleted.`
    : undefined
  return (
    <>
      <Button kind="main" reason={reason} onClick={() => open(true)}>
        <Icon name="plus" /> New environment
      </Button>
      {isOpen && (
        <Dialog title="New environment" onClose={() => open(false)}>
          <Form
            submit="Create"
            send={async (data) => {
              const server = text(data, 'server_id')
              const made = await change(
                api.environment.create.mutate({
                  project_id: project.id,
                  identifier: text(data, 'identifier').trim(),
                  branch: text(data, 'branch').trim(),
                  deploy: isChecked(data, 'deploy'),
                  ...(server ? { server_id: Number(server) } : {}),
                }),
              )
              open(false)
              await navigate({ to: '/environments/$id', params: { id: String(made.id) } })
            }}
          >
            <Text
              label="Name"
              name="identifier"
              placeholder="staging"
              hint={`Its address is <name>.${project.domain}.`}
              autoCapitalize="off"
              spellCheck={false}
              required
            />
            <Text label="Branch" name="branch" defaultValue={project.default_branch} required />
            {project.servers.length > 1 && (
              <Select
                label="Server"
                name="server_id"
                defaultValue={project.default_server_id ?? ''}
              >
                {project.servers.map((s) => (
                  <option key={s.id} value={s.id}>
                    {s.name}
                  </option>
                ))}
              </Select>
            )}
            <Check label="Deploy now" name="deploy" defaultChecked />
          </Form>
        </Dialog>
      )}
    </>
  )
}
