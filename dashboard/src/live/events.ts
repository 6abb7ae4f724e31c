// What an event means for what is on the page: the lock and the state it carries are shown at once, everything else it
// touches is asked again. One round a moment at most, however many events come.
import type { Query } from '@tanstack/react-query'
import { queryClient, trpc } from '../api.ts'

export interface LiveMessage {
  kind: string
  seq: number
  project_id?: number | null
  environment_id?: number | null
  task_id?: number | null
  environment?: { id: number; status: string; locked: boolean } | null
}

/** Which procedures speak of what; the first word of an event's kind on the left. */
const TOUCHES: Record<string, readonly string[]> = {
  organization: ['organization', 'me', 'admin'],
  member: ['member', 'invitation', 'me', 'environment', 'organization'],
  server: ['server', 'project', 'environment'],
  project: ['project', 'environment', 'me', 'delivery', 'server'],
  environment: ['environment', 'project', 'variable', 'action', 'pullRequest', 'server'],
  pull_request: ['pullRequest', 'environment', 'project'],
  delivery: ['delivery', 'project', 'pullRequest'],
  task: ['task', 'environment', 'action', 'artifact', 'project', 'variable'],
}
const GATHER_MS = 40
const PAUSE_MS = 300
const IDS = ['project_id', 'environment_id', 'task_id'] as const

let waiting: LiveMessage[] = []
let isPlanned = false
let lastRound = 0

/** A query about another project, environment or task is left alone. */
export function isTouched(key: readonly unknown[], message: LiveMessage): boolean {
  const [path, rest] = key as [string[], { input?: Record<string, unknown> } | undefined]
  const noun = message.kind.split('.')[0] ?? ''
  if (!Array.isArray(path) || !TOUCHES[noun]?.includes(path[0] ?? '')) return false
  const input = rest?.input ?? {}
  return IDS.every((id) => {
    const asked = input[id]
    const told = message[id]
    return asked === undefined || told === undefined || told === null || asked === told
  })
}

function round(): void {
  isPlanned = false
  lastRound = Date.now()
  const messages = waiting
  waiting = []
  const predicate = (query: Query) => messages.some((m) => isTouched(query.queryKey, m))
  void queryClient.invalidateQueries({ predicate })
}

export function applyEvent(message: LiveMessage): void {
  if (message.kind === 'reset') {
    void queryClient.invalidateQueries()
    return
  }
  if (message.kind === 'begun') return
  if (message.environment) showLock(message.environment, message.project_id ?? undefined)
  if (waiting.length < 1_000) waiting.push(message)
  if (isPlanned) return
  isPlanned = true
  setTimeout(round, Math.max(GATHER_MS, lastRound + PAUSE_MS - Date.now()))
}

type Shown = { id: number; status: string; locked: boolean }
const overlay = <T extends { id: number }>(environment: T, now: Shown): T =>
  environment.id === now.id
    ? { ...environment, status: now.status, locked: now.locked }
    : environment

/** The one thing that cannot wait for an answer: whether Deploy and Delete are locked. */
function showLock(now: Shown, projectId: number | undefined): void {
  queryClient.setQueryData(
    trpc.environment.get.queryKey({ environment_id: now.id }),
    (known) => known && overlay(known, now),
  )
  if (projectId === undefined) return
  queryClient.setQueryData(
    trpc.environment.list.queryKey({ project_id: projectId }),
    (known) => known && { ...known, environments: known.environments.map((e) => overlay(e, now)) },
  )
}
