// Applies events to the page: the lock and the state they carry are shown immediately, other affected queries are
// refetched. Refetches are batched, however many events arrive.
import type { Query } from '@tanstack/react-query'
import { queryClient, trpc } from '../api.ts'
import { isTouched, type LiveMessage } from './touches.ts'

const COLLECT_MS = 40
const PAUSE_MS = 300

let waiting: LiveMessage[] = []
let isPlanned = false
let lastRound = 0

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
  setTimeout(round, Math.max(COLLECT_MS, lastRound + PAUSE_MS - Date.now()))
}

type Shown = { id: number; status: string; locked: boolean }
const overlay = <T extends { id: number }>(environment: T, now: Shown): T =>
  environment.id === now.id
    ? { ...environment, status: now.status, locked: now.locked }
    : environment

/** Updates the locks of Deploy and Delete, which must not wait for a refetch. */
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
