// The command palette: a combobox over known pages and the server's search results. Arrows choose, Enter opens.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState } from 'react'
import { trpc } from '../api.ts'
import { useProjects } from '../data.ts'
import { useMe } from '../organization.ts'
import css from './palette.module.css'

interface Entry {
  key: string
  label: string
  kind: string
  to: string
}

const PAGES: Entry[] = [
  { key: 'p', label: 'Projects', kind: 'Page', to: '/' },
  { key: 's', label: 'Servers', kind: 'Page', to: '/servers' },
  { key: 'm', label: 'Members', kind: 'Page', to: '/org/members' },
  { key: 'o', label: 'Organization settings', kind: 'Page', to: '/org/settings' },
  { key: 'c', label: 'Notifications', kind: 'Page', to: '/org/notifications' },
  { key: 'a', label: 'Account', kind: 'Page', to: '/account' },
  { key: 't', label: 'Tokens', kind: 'Page', to: '/account/tokens' },
  { key: 'n', label: 'New project', kind: 'Action', to: '/projects/new' },
  { key: 'j', label: 'Add a server', kind: 'Action', to: '/servers?add=true' },
]
const MOST = 12
const MOST_PROJECTS = 5

/** Matches all words of the query, in any order. */
function matches(entry: Entry, words: readonly string[]): boolean {
  const text = `${entry.label} ${entry.kind}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

function useEntries(question: string): Entry[] {
  const words = question.toLowerCase().split(/\s+/).filter(Boolean)
  const projects = useProjects().data?.projects ?? []
  const { data: me } = useMe()
  const found = projects.filter((p) => words.some((w) => p.name.toLowerCase().includes(w)))
  const near = (found.length > 0 ? found : projects).slice(0, MOST_PROJECTS)
  const environments = useEnvironmentEntries(near.map((p) => ({ id: p.id, name: p.name })))
  const task = /^#?(\d{1,10})$/.exec(question.trim())?.[1]
  const all: Entry[] = [
    ...(task
      ? [{ key: `t${task}`, label: `Deployment ${task}`, kind: 'Task', to: `/tasks/${task}` }]
      : []),
    ...projects.map((p) => ({
      key: `p${p.id}`,
      label: p.name,
      kind: 'Project',
      to: `/projects/${p.id}`,
    })),
    ...environments,
    ...PAGES,
    ...(me?.is_platform_admin
      ? [{ key: 'admin', label: 'Platform administration', kind: 'Page', to: '/admin' }]
      : []),
  ]
  return all.filter((e) => e.kind === 'Task' || matches(e, words)).slice(0, MOST)
}

function useEnvironmentEntries(projects: { id: number; name: string }[]): Entry[] {
  const [a, b, c, d, e] = projects
  const lists = [useList(a), useList(b), useList(c), useList(d), useList(e)]
  return lists.flat()
}

function useList(project: { id: number; name: string } | undefined): Entry[] {
  const { data } = useQuery({
    ...trpc.environment.list.queryOptions({ project_id: project?.id ?? 1 }),
    enabled: project !== undefined,
    staleTime: 10_000,
  })
  if (!project || !data) return []
  return data.environments.flatMap((e) => {
    const label = `${project.name} / ${e.identifier}`
    const last = e.last_task
    return [
      { key: `e${e.id}`, label, kind: 'Environment', to: `/environments/${e.id}` },
      ...(last
        ? [
            {
              key: `l${last.id}`,
              label: `${label} · deployment ${last.id}`,
              kind: 'Last task',
              to: `/tasks/${last.id}`,
            },
          ]
        : []),
    ]
  })
}

export default function Palette({ onClose }: { onClose(): void }) {
  const ref = useRef<HTMLDialogElement>(null)
  const navigate = useNavigate()
  const id = useId()
  const [question, ask] = useState('')
  const [at, setAt] = useState(0)
  const entries = useEntries(question)
  const chosen = Math.min(at, entries.length - 1)
  useEffect(() => {
    const dialog = ref.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  const go = (entry: Entry | undefined) => {
    if (!entry) return
    onClose()
    void navigate({ to: entry.to })
  }
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === 'Enter') return go(entries[chosen])
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (step === 0) return
    event.preventDefault()
    setAt((chosen + step + entries.length) % Math.max(1, entries.length))
  }
  return (
    <dialog
      ref={ref}
      className={css.palette}
      aria-label="Search"
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose()
      }}
      onKeyDown={onKeyDown}
    >
      <input
        className={css.input}
        role="combobox"
        aria-label="Search projects, environments, deployments and pages"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={entries[chosen] ? `${id}-${entries[chosen].key}` : undefined}
        placeholder="Project, environment, deployment number, page…"
        value={question}
        onChange={(event) => {
          ask(event.currentTarget.value)
          setAt(0)
        }}
      />
      <div id={`${id}-list`} role="listbox" aria-label="Results" className={css.list}>
        {entries.map((entry, n) => (
          <div
            key={entry.key}
            id={`${id}-${entry.key}`}
            role="option"
            tabIndex={-1}
            aria-selected={n === chosen}
            className={css.entry}
            onPointerMove={() => setAt(n)}
            onClick={() => go(entry)}
            onKeyDown={undefined}
          >
            <span>{entry.label}</span>
            <span className="muted small">{entry.kind}</span>
          </div>
        ))}
        {entries.length === 0 && <p className={css.none}>Nothing found.</p>}
      </div>
    </dialog>
  )
}
