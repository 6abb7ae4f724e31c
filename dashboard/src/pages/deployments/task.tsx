// One deployment, removal or action: its outcome, its phases, its log, and what a user can do about it. The page fills
// the window, so that the log ends at its bottom.
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { type RefObject, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { problemOf, trpc } from '../../api.ts'
import { Page } from '../../components/page.tsx'
import { Loaded, Skeleton, unnamed } from '../../components/states.tsx'
import { type Task, useEnvironment, useProject } from '../../data.ts'
import { useFavicon } from '../../favicon.ts'
import { capital } from '../../format.ts'
import { readLines } from '../../log/links.ts'
import { type LogSession, openLog } from '../../log/session.ts'
import { type LogStep, LogViewer, type ViewerHandle } from '../../log/viewer.tsx'
import { useOrganizationOf } from '../../organization.ts'
import { useId } from '../../params.ts'
import { NotFound } from '../not-found.tsx'
import { FilesPanel, filesOptions } from './artifacts.tsx'
import css from './task.module.css'
import { TaskActions } from './task-actions.tsx'
import { Announcer } from './task-announcer.tsx'
import { Comparison, compareOptions } from './task-comparison.tsx'
import { earlierOptions, TaskFacts } from './task-facts.tsx'
import { errorOptions, Outcome, useErrorLine } from './task-outcome.tsx'
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

/** What the page shows besides the task itself, asked for in one request. */
const partsOf = (t: Task) => [
  trpc.environment.get.queryOptions({ environment_id: t.environment_id }),
  trpc.project.get.queryOptions({ project_id: t.project_id }),
  earlierOptions(t),
  errorOptions(t),
  ...(t.type === 'deploy' ? [compareOptions(t.id)] : []),
  ...(t.type === 'action' ? [filesOptions(t.id)] : []),
]

export function TaskPage() {
  const id = useId()
  const task = useQuery({ ...trpc.task.get.queryOptions({ task_id: id }), enabled: id > 0 })
  const session = useSession(id, task.data?.id === id ? task.data.log_lines : undefined)
  const parts = useQueries({ queries: task.data ? partsOf(task.data) : [] })
  useFavicon(task.data?.status)
  if (id === 0) return <NotFound />
  return (
    <Loaded
      query={task}
      also={parts}
      what="The deployment"
      missing={<NotFound />}
      frame={(state) =>
        task.isError ? <Page title="Deployment">{state}</Page> : unnamed('Deployment', state)
      }
    >
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

/** Where a phase begins, for an address such as `?phase=build`. */
const firstLineOf = (task: Task, name: string | undefined): number | undefined =>
  task.phases?.find((phase) => phase.name === name)?.steps.find((s) => s.first_line !== null)
    ?.first_line ?? undefined

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
  const isGone = environments.isError && problemOf(environments.error).status === 404
  const environment = isGone ? undefined : environments.data // which keeps what was read before
  const project = useProject(t.project_id).data
  useOrganizationOf(project?.organization_id)
  const viewer = useRef<ViewerHandle>(null)
  const screen = useRef<HTMLDivElement>(null)
  useAbove(screen)
  const steps = useMemo(() => logSteps(t), [t])
  const isOpen = t.finished_at === null
  const errorLine = useErrorLine(t)
  const search = useSearch({ strict: false }) as { phase?: string }
  const [phase] = useState(search.phase) // one that the reader opens later does not move the log
  const phaseLine = firstLineOf(t, phase)
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
            {isGone ? (
              'Environment removed'
            ) : environment ? (
              <Link to="/environments/$id" params={{ id: String(t.environment_id) }}>
                {name}
              </Link>
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
              start={phaseLine ?? errorLine}
              error={errorLine}
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
