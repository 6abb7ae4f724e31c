// One deployment, removal or action: its outcome, its phases, its log, and what a user can do about it. The page fills
// the window, so that the log ends at its bottom.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { problemOf, trpc } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Loaded, Skeleton } from '../../components/states.tsx'
import { type Task, useEnvironment, useProject } from '../../data.ts'
import { useFavicon } from '../../favicon.ts'
import { capital } from '../../format.ts'
import { readLines } from '../../log/links.ts'
import { type LogSession, openLog } from '../../log/session.ts'
import { type LogStep, LogViewer, type ViewerHandle } from '../../log/viewer.tsx'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'
import { FilesPanel } from './artifacts.tsx'
import css from './task.module.css'
import { TaskActions } from './task-actions.tsx'
import { Announcer } from './task-announcer.tsx'
import { Comparison } from './task-comparison.tsx'
import { TaskFacts } from './task-facts.tsx'
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

/** Measures how much of the window is above the page, because the frame may show strips there. */
function useAbove(ref: RefObject<HTMLElement | null>): void {
  useLayoutEffect(() => {
    const e = ref.current
    if (!e) return
    const measure = () => {
      const px = Math.round(e.getBoundingClientRect().top + scrollY)
      e.style.setProperty('--above', `${px}px`)
    }
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(document.body)
    return () => observer.disconnect()
  }, [ref])
}

function Full({ task: t, session }: { task: Task; session: LogSession | undefined }) {
  const environments = useEnvironment(t.environment_id)
  const environment = environments.data
  const isGone = environments.isError && problemOf(environments.error).status === 404
  const project = useProject(t.project_id).data
  useOrganizationOf(project?.organization_id)
  const viewer = useRef<ViewerHandle>(null)
  const screen = useRef<HTMLDivElement>(null)
  useAbove(screen)
  const steps = useMemo(() => logSteps(t), [t])
  const isOpen = t.finished_at === null
  const errorLine = useErrorLine(t)
  const name = environment?.identifier ?? 'Environment'
  const jump = (line: number) => viewer.current?.jump(line)
  return (
    <div ref={screen} className={css.screen}>
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
            ) : isGone ? (
              'Environment removed'
            ) : (
              'Environment'
            )}
          </>
        }
        actions={<TaskActions task={t} environment={environment} session={session} />}
        facts={<TaskFacts task={t} environment={environment} project={project} />}
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
          <div className={css.side}>
            <Phases task={t} session={session} jump={jump} />
            {t.type === 'action' && <FilesPanel taskId={t.id} />}
            {t.type === 'deploy' && <Comparison task={t} project={project} />}
          </div>
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
    </div>
  )
}
