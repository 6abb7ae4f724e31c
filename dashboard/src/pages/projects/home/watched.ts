// What the first page knows, and what of it waits for the user. Pure.
import type { Environment, Overview, Server, useProjects } from '../../../data.ts'

export type ListedProject = NonNullable<ReturnType<typeof useProjects>['data']>['projects'][number]

/** By project. */
export type Environments = ReadonlyMap<
  number,
  { environments: Environment[]; used: number; limit: number }
>

export interface Known {
  projects: readonly ListedProject[]
  servers: readonly Server[]
  environments: Environments
  overview: Overview | undefined
}

interface WaitingItem {
  key: string
  /** The state whose look fits. */
  state: 'waiting' | 'failed' | 'degraded' | 'offline'
  /** "shop / staging". */
  what: string
  why: string
  to: string
}

const isFailed = (e: Environment): boolean =>
  !e.locked && (e.status === 'failed' || e.last_task?.status === 'failed')

/** What a person decides comes first, then what is broken, then what is full. */
export function listWaiting({ projects, servers, environments, overview }: Known): WaitingItem[] {
  const approvals = (overview?.approvals ?? []).map(
    (pull): WaitingItem => ({
      key: `approval ${pull.project.id} ${pull.number}`,
      state: 'waiting',
      what: `${pull.project.name} / #${pull.number} ${pull.title}`,
      why: `Fork of ${pull.author}: needs approval`,
      to: `/projects/${pull.project.id}`,
    }),
  )
  const offline = servers
    .filter((s) => s.status === 'offline' || s.status === 'duplicate_identity')
    .map(
      (s): WaitingItem => ({
        key: `server ${s.id}`,
        state: 'offline',
        what: s.name,
        why: s.status === 'offline' ? 'Server offline' : 'Two agents use one identity',
        to: `/servers/${s.id}`,
      }),
    )
  const forges = (overview?.broken_forges ?? []).map(
    (broken): WaitingItem => ({
      key: `forge ${broken.project.id}`,
      state: 'failed',
      what: broken.project.name,
      why: 'Forge connection broken',
      to: `/projects/${broken.project.id}/settings/repository`,
    }),
  )
  const failed = projects.flatMap((p) =>
    (environments.get(p.id)?.environments ?? []).flatMap((e): WaitingItem[] => {
      const what = `${p.name} / ${e.identifier}`
      if (isFailed(e)) {
        const to = e.last_task ? `/tasks/${e.last_task.id}` : `/environments/${e.id}`
        return [{ key: `failed ${e.id}`, state: 'failed', what, why: 'Deployment failed', to }]
      }
      if (e.status !== 'degraded') return []
      const why = e.status_reason ?? 'Degraded'
      return [
        { key: `degraded ${e.id}`, state: 'degraded', what, why, to: `/environments/${e.id}` },
      ]
    }),
  )
  const full = projects.flatMap((p): WaitingItem[] => {
    const list = environments.get(p.id)
    if (!list || list.used < list.limit) return []
    const why = `Environment limit reached (${list.used}/${list.limit})`
    return [{ key: `full ${p.id}`, state: 'waiting', what: p.name, why, to: `/projects/${p.id}` }]
  })
  return [...approvals, ...offline, ...forges, ...failed, ...full]
}

export interface StepsDone {
  server: boolean
  forge: boolean
  project: boolean
  deployment: boolean
  preview: boolean
}

export function stepsDone(known: Known, connections: number): StepsDone {
  const all = [...known.environments.values()].flatMap((one) => one.environments)
  const ran = known.overview?.activity ?? []
  return {
    server: known.servers.some((s) => s.joined_at !== null),
    forge: connections > 0,
    project: known.projects.length > 0,
    deployment: all.some((e) => e.deployed !== null) || ran.some((t) => t.status === 'succeeded'),
    preview: all.some((e) => e.type === 'pull_request' && e.deployed !== null),
  }
}
