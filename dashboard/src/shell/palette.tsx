// The command palette: known pages, projects with their environments, and deployments by their number.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { trpc } from '../api.ts'
import { Finder, type Entry as Found } from '../components/overlays/finder.tsx'
import { useProjects } from '../data.ts'
import { useMe } from '../organization.ts'

interface Entry extends Found {
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
  { key: 'j', label: 'Add server', kind: 'Action', to: '/servers?add=true' },
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
  const navigate = useNavigate()
  const [question, ask] = useState('')
  const entries = useEntries(question)
  return (
    <Finder
      title="Search"
      label="Search projects, environments, deployments and pages"
      placeholder="Search or jump to…"
      question={question}
      entries={entries}
      onQuestion={ask}
      onClose={onClose}
      onChoose={({ to }) => {
        onClose()
        void navigate({ to })
      }}
    />
  )
}
