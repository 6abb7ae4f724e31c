// The facts of a task below its heading: result, duration against the usual one, source, author, trigger, address.
import { useQuery } from '@tanstack/react-query'
import { trpc } from '../../api.ts'
import { Icon } from '../../components/icon.tsx'
import { TaskStatus } from '../../components/status.tsx'
import { Clock, Time } from '../../components/time.tsx'
import type { Environment, Project, Task } from '../../data.ts'
import { commitUrl, duration, short } from '../../format.ts'
import css from './task.module.css'
import { triggeredBy } from './words.ts'

interface FactsProps {
  task: Task
  environment: Environment | undefined
  project: Project | undefined
}

export function TaskFacts({ task: t, environment: e, project }: FactsProps) {
  return (
    <>
      <span className={css.result}>
        <TaskStatus of={t.status} />
        <Took task={t} />
      </span>
      <Source task={t} environment={e} />
      <Commit task={t} project={project} />
      <span>
        {triggeredBy(t)}, <Time at={t.finished_at ?? t.created_at} />
      </span>
      {e && <Addresses environment={e} />}
    </>
  )
}

const HISTORY = 10

function middle(values: number[]): number | undefined {
  const sorted = values.toSorted((a, b) => a - b)
  const at = sorted.length >> 1
  if (sorted.length === 0) return undefined
  return sorted.length % 2 ? sorted[at] : ((sorted[at - 1] ?? 0) + (sorted[at] ?? 0)) / 2
}

/** The successful deployments before it. */
export const earlierOptions = (t: Task) => ({
  ...trpc.task.list.queryOptions({
    environment_id: t.environment_id,
    status: ['succeeded'],
    types: ['deploy'],
    before: t.id,
    limit: HISTORY,
  }),
  enabled: t.type === 'deploy',
  staleTime: 60_000,
})

/** The median of what they took; undefined if there is none. */
function useUsual(t: Task): number | undefined {
  const { data } = useQuery(earlierOptions(t))
  return middle(data?.tasks.flatMap((p) => p.duration_ms ?? []) ?? [])
}

/** A difference within a tenth counts as usual. */
function compared(took: number, usual: number): string {
  const by = Math.round((100 * (took - usual)) / Math.max(1, usual))
  if (Math.abs(by) <= 10) return `as usual (${duration(usual)})`
  return `${Math.abs(by)}% ${by > 0 ? 'slower' : 'faster'} than usual (${duration(usual)})`
}

function Took({ task: t }: { task: Task }) {
  const usual = useUsual(t)
  if (t.duration_ms === null) {
    return (
      <span>
        <Clock since={t.started_at ?? t.created_at} />
        {usual !== undefined && `, usually ${duration(usual)}`}
      </span>
    )
  }
  if (t.status !== 'succeeded' || t.type !== 'deploy') return <span>{duration(t.duration_ms)}</span>
  return (
    <span>
      Deployed in {duration(t.duration_ms)}
      {usual !== undefined && `, ${compared(t.duration_ms, usual)}`}
    </span>
  )
}

/** The pull request, else the branch. */
function Source({ task: t, environment: e }: Pick<FactsProps, 'task' | 'environment'>) {
  const pull = e?.pull_request
  return (
    <span className={css.fact}>
      <Icon name="branch" size={14} />
      {pull && (
        <a href={pull.url} rel="noreferrer" title={pull.title}>
          #{pull.number}
        </a>
      )}
      <span className={css.cut} title={t.branch}>
        {t.branch}
      </span>
    </span>
  )
}

function Commit({ task: t, project }: Pick<FactsProps, 'task' | 'project'>) {
  if (!t.commit_sha) return null
  const provider = project?.repository.provider ?? null
  const url = project && commitUrl(project.repo_url, t.commit_sha, provider)
  const sha = <code>{short(t.commit_sha)}</code>
  return (
    <span className={css.fact} title={t.commit_message ?? undefined}>
      {url ? (
        <a href={url} rel="noreferrer">
          {sha}
        </a>
      ) : (
        sha
      )}
      {t.commit_message && <span className={css.cut}>{t.commit_message}</span>}
      {t.commit_author && <span className={css.author}>by {t.commit_author}</span>}
    </span>
  )
}

const SHOWN = 3

function Addresses({ environment: e }: { environment: Environment }) {
  const urls = [...new Set([e.url, ...e.services.map((s) => s.url)])].filter((url) => url !== null)
  if (urls.length === 0) return null
  const rest = urls.slice(SHOWN)
  return (
    <span className={css.fact}>
      {urls.slice(0, SHOWN).map((url) => (
        <a key={url} className={css.address} href={url} rel="noreferrer">
          {url.replace(/^https?:\/\//, '').replace(/\/$/, '')} <Icon name="out" size={12} />
        </a>
      ))}
      {rest.length > 0 && <span title={rest.join('\n')}>+{rest.length}</span>}
    </span>
  )
}
