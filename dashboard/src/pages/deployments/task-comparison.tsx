// What differs from the last successful deployment: commit, files, variables by key, images, durations. It appears
// beside the log, folded on narrow screens.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { type api, trpc } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
import { Time } from '../../components/time.tsx'
import type { Project, Task } from '../../data.ts'
import { capital, compareUrl, count, duration, short } from '../../format.ts'
import css from './task.module.css'
import { isWide } from './task-phases.tsx'

type Compared = NonNullable<Awaited<ReturnType<typeof api.task.compare.query>>>
type Changes = NonNullable<Awaited<ReturnType<typeof api.task.changes.query>>>

interface ComparisonProps {
  task: Task
  project: Project | undefined
}

export const compareOptions = (taskId: number) =>
  trpc.task.compare.queryOptions({ task_id: taskId })

export function Comparison({ task: t, project }: ComparisonProps) {
  const [isOpen, open] = useState(isWide)
  const { data } = useQuery(compareOptions(t.id))
  const isOtherCommit = data && t.commit_sha && data.commit_sha && data.commit_sha !== t.commit_sha
  const files = useQuery({
    ...trpc.task.changes.queryOptions({ task_id: t.id }),
    enabled: isOpen && Boolean(isOtherCommit),
    staleTime: Number.POSITIVE_INFINITY, // two commits never differ in another way later
  })
  return (
    <details
      className={css.panel}
      open={isOpen}
      onToggle={(event) => open(event.currentTarget.open)}
    >
      <summary>
        <h2>Changes</h2>
        {!isOpen && data && <span className="muted small">since {data.task_id}</span>}
      </summary>
      {data === undefined ? (
        <div className={css.waiting} />
      ) : data === null ? (
        <p className={css.none}>No earlier deployment has succeeded.</p>
      ) : (
        <div className={css.changes}>
          <p className="muted small">
            Since{' '}
            <Link to="/tasks/$id" params={{ id: String(data.task_id) }}>
              deployment {data.task_id}
            </Link>
            {data.finished_at && (
              <>
                , <Time at={data.finished_at} />
              </>
            )}
          </p>
          <Commits task={t} since={data} project={project} />
          <Variables since={data} />
          <Images since={data} />
          <Durations task={t} since={data} />
          {/* last, because reading them takes time */}
          {files.data && <Files of={files.data} />}
          {isOtherCommit && files.isPending && <p className="muted small">Reading files…</p>}
          {files.isError && <p className="muted small">The changed files could not be read.</p>}
        </div>
      )}
    </details>
  )
}

function Change({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={css.change}>
      <h3>{title}</h3>
      {children}
    </section>
  )
}

function Commits({ task: t, since, project }: ComparisonProps & { since: Compared }) {
  if (since.commit_sha === t.commit_sha) {
    return (
      <Change title="Commit">
        <p>Same commit{since.service_file_changed ? ', other .service.yml' : ''}</p>
      </Change>
    )
  }
  if (since.commit_sha === null || t.commit_sha === null) return null // not checked out yet
  const url =
    project &&
    compareUrl(
      project.repo_url,
      since.commit_sha,
      t.commit_sha,
      project.repository.provider ?? null,
    )
  return (
    <Change title="Commit">
      <p className="row">
        <span>
          <code>{short(since.commit_sha)}</code> → <code>{short(t.commit_sha)}</code>
        </span>
        {url && (
          <a href={url} rel="noreferrer">
            Compare <Icon name="out" size={12} />
          </a>
        )}
      </p>
      {since.service_file_changed && <p>.service.yml changed</p>}
    </Change>
  )
}

const FIRST = 8
const MARKS = { added: 'A', changed: 'M', deleted: 'D' } as const

function Files({ of }: { of: Changes }) {
  const [isAll, showAll] = useState(false)
  if (of.problem !== null) {
    return (
      <Change title="Files">
        <p className="muted">Not available: {of.problem}</p>
      </Change>
    )
  }
  const { files } = of
  const shown = isAll ? files : files.slice(0, FIRST)
  const all = `${files.length}${of.is_truncated ? '+' : ''}`
  return (
    <Change title={files.length === 1 ? '1 file' : `${all} files`}>
      {files.length === 0 && <p className="muted">No file differs.</p>}
      <ul className={css.files}>
        {shown.map(({ change, path }) => (
          <li key={path} title={`${path} (${change})`}>
            <span className={css[change]}>
              <span aria-hidden="true">{MARKS[change]}</span>
              <span className="visually-hidden">{change}</span>
            </span>
            <span className={css.path}>{path}</span>
          </li>
        ))}
      </ul>
      {files.length > FIRST && (
        <Button kind="quiet" small aria-expanded={isAll} onClick={() => showAll(!isAll)}>
          {isAll ? 'Show less' : `Show all ${all}`}
        </Button>
      )}
    </Change>
  )
}

function Variables({ since }: { since: Compared }) {
  const keys = since.variable_keys_changed
  if (keys.length === 0) return null
  return (
    <Change title={count(keys.length, 'variable')}>
      <ul className={css.keys}>
        {keys.map((key) => (
          <li key={key}>
            <code>{key}</code>
          </li>
        ))}
      </ul>
    </Change>
  )
}

function Images({ since }: { since: Compared }) {
  if (!since.images || since.images.length === 0) return null
  return (
    <Change title={count(since.images.length, 'image')}>
      <ul className={css.images}>
        {since.images.map(({ service, before, after }) => (
          <li key={service}>
            <span>{service}</span>
            <code title={before ?? undefined}>{before ?? 'none'}</code>
            <code title={after ?? undefined}>→ {after ?? 'removed'}</code>
          </li>
        ))}
      </ul>
    </Change>
  )
}

/** Phases that took less than this in both are left out. */
const SMALL_MS = 100

function Durations({ task: t, since }: { task: Task; since: Compared }) {
  if (t.finished_at === null || since.duration_ms === null) return null
  const rows = since.phases.filter(
    (p) => Math.max(p.before_ms ?? 0, p.after_ms ?? 0) >= SMALL_MS || p.after_ms === null,
  )
  return (
    <Change title="Duration">
      <table className={css.times}>
        <thead>
          <tr>
            <th scope="col">Phase</th>
            <th scope="col">Now</th>
            <th scope="col">Before</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((p) => (
            <tr key={p.name}>
              <th scope="row">{capital(p.title)}</th>
              <td>{p.after_ms === null ? '–' : duration(p.after_ms)}</td>
              <td>{p.before_ms === null ? '–' : duration(p.before_ms)}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">Total</th>
            <td>{duration(t.duration_ms ?? 0)}</td>
            <td>{duration(since.duration_ms)}</td>
          </tr>
        </tbody>
      </table>
    </Change>
  )
}
