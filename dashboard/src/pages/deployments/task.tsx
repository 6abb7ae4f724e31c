// One deployment, removal or action: its phases, its log, its result, and what a user can do about it.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { trpc } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Loaded, Skeleton } from '../../components/states.tsx'
import { TaskStatus } from '../../components/status.tsx'
import { Clock, Time } from '../../components/time.tsx'
import { type Task, useEnvironment, useProject } from '../../data.ts'
import { useFavicon } from '../../favicon.ts'
import { capital, commitUrl, duration, short, triggerWords } from '../../format.ts'
import { readLines } from '../../log/links.ts'
import { type LogSession, openLog } from '../../log/session.ts'
import { type LogStep, LogViewer, type ViewerHandle } from '../../log/viewer.tsx'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'
import css from './task.module.css'
import { TaskActions } from './task-actions.tsx'
import { Announcer } from './task-announcer.tsx'
import { Outcome, useErrorLine } from './task-outcome.tsx'
import { Phases } from './task-phases.tsx'
import { taskName } from './task-table.tsx'

const SIGNS: Record<string, string> = {
  queued: '·',
  running: '◐',
  succeeded: '✓',
  failed: '✗',
  canceled: '–',
}

function useSession(taskId: number, lines: number | undefined): LogSession | undefined {
  const [session, setSession] = useState<LogSession>()
  useEffect(() => {
    if (taskId === 0) return
    const opened = openLog(taskId, readLines(location.hash)?.from ?? 1)
    setSession(opened)
    return opened.close
  }, [taskId])
  useEffect(() => {
    if (session && lines !== undefined) session.begin(lines)
  }, [session, lines])
  return session
}

export function TaskPage() {
  const id = useId()
  const task = useQuery({ ...trpc.task.get.queryOptions({ task_id: id }), enabled: id > 0 })
  const session = useSession(id, task.data?.id === id ? task.data.log_lines : undefined)
  useFavicon(task.data?.status)
  if (id === 0) return <NotFound />
  return (
    <Loaded query={task} what="The deployment" missing={<NotFound />}>
      {(t) => <Full key={t.id} task={t} session={session} />}
    </Loaded>
  )
}

function logSteps(task: Task): LogStep[] {
  return (task.phases ?? []).flatMap((phase) =>
    phase.steps.map((step, i) => ({
      name: step.name,
      words:
        phase.title === step.title
          ? capital(phase.title)
          : `${capital(phase.title)} · ${step.title}`,
      startedAt: step.started_at ? Date.parse(step.started_at) : undefined,
      firstLine: step.first_line ?? undefined,
      startsPhase: i === 0,
    })),
  )
}

function Full({ task: t, session }: { task: Task; session: LogSession | undefined }) {
  const environment = useEnvironment(t.environment_id).data
  const project = useProject(t.project_id).data
  useOrganizationOf(project?.organization_id)
  const viewer = useRef<ViewerHandle>(null)
  const steps = useMemo(() => logSteps(t), [t])
  const isOpen = t.finished_at === null
  const errorLine = useErrorLine(t)
  const name = environment?.identifier ?? 'Environment'
  const jump = (line: number) => viewer.current?.jump(line)
  return (
    <Page
      title={`${SIGNS[t.status] ?? ''} ${t.id} ${name}${project ? ` · ${project.name}` : ''}`}
      heading={taskName(t)}
      trail={
        <>
          {project && (
            <>
              <Link to="/projects/$id" params={{ id: String(t.project_id) }}>
                {project.name}
              </Link>
              {' / '}
            </>
          )}
          {environment ? (
            <Link to="/environments/$id" params={{ id: String(t.environment_id) }}>
              {name}
            </Link>
          ) : (
            'Environment removed'
          )}
        </>
      }
      actions={<TaskActions task={t} environment={environment} />}
      facts={
        <>
          <TaskStatus of={t.status} />
          <Took task={t} />
          <Commit
            task={t}
            repoUrl={project?.repo_url}
            provider={project?.repository.provider ?? null}
          />
          <span>
            started {triggerWords(t.trigger)}, {t.triggered_by.name}
          </span>
          <Time at={t.finished_at ?? t.created_at} />
        </>
      }
    >
      <Announcer task={t} />
      <Outcome
        task={t}
        environment={environment}
        errorLine={errorLine}
        session={session}
        jump={jump}
      />
      <div className={css.columns}>
        <Phases task={t} jump={jump} />
        {session ? (
          <LogViewer
            taskId={t.id}
            session={session}
            label={`Log of ${taskName(t)}`}
            steps={steps}
            isOpen={isOpen}
            start={errorLine}
            handle={viewer}
          />
        ) : (
          <Skeleton />
        )}
      </div>
    </Page>
  )
}

function Took({ task: t }: { task: Task }) {
  if (t.duration_ms !== null) return <span>{duration(t.duration_ms)}</span>
  return <Clock since={t.started_at ?? t.created_at} />
}

function Commit({
  task: t,
  repoUrl,
  provider,
}: {
  task: Task
  repoUrl: string | undefined
  provider: string | null
}) {
  if (!t.commit_sha) return <span>{t.branch}</span>
  const url = repoUrl && commitUrl(repoUrl, t.commit_sha, provider)
  const sha = <code>{short(t.commit_sha)}</code>
  return (
    <span title={t.commit_message ?? undefined}>
      {t.branch} @{' '}
      {url ? (
        <a href={url} rel="noreferrer">
          {sha}
        </a>
      ) : (
        sha
      )}
    </span>
  )
}
