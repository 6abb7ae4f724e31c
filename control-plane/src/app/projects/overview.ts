// What the dashboard's first page shows across projects: the newest deployments, and what waits for a person. Facts of
// single environments and servers come with their own lists.
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { OVERVIEW } from '../../limits/browser.ts'
import { listTasks } from '../../store/deployments/task-history.ts'
import type { ShownTask } from '../../store/deployments/tasks.ts'
import {
  listAwaitingApproval,
  listBrokenForges,
  listEnvironmentNames,
  listLiveliestProjects,
} from '../../store/projects/overview.ts'
import { readableOrganizations } from '../core/access.ts'

interface Activity {
  task: ShownTask
  projectName: string
  /** Null for a removed environment. */
  identifier: string | null
}

export interface Overview {
  activity: Activity[]
  approvals: Awaited<ReturnType<typeof listAwaitingApproval>>
  brokenForges: Awaited<ReturnType<typeof listBrokenForges>>
}

export async function getOverview(ctx: Context, caller: Caller): Promise<Overview> {
  const organizations = readableOrganizations(caller)
  if (organizations.length === 0) return { activity: [], approvals: [], brokenForges: [] }
  return {
    activity: await listActivity(ctx, organizations),
    approvals: await listAwaitingApproval(ctx.db, organizations, OVERVIEW.waiting),
    brokenForges: await listBrokenForges(ctx.db, organizations, OVERVIEW.waiting),
  }
}

/** Each project's history has a key, the histories of all have none: the newest of each are merged. */
async function listActivity(ctx: Context, organizations: number[]): Promise<Activity[]> {
  const projects = await listLiveliestProjects(ctx.db, organizations, OVERVIEW.projects)
  const tasks: ShownTask[] = []
  for (const { id: projectId } of projects) {
    const filter = { types: ['deploy' as const], limit: OVERVIEW.activity }
    tasks.push(...(await listTasks(ctx.db, { projectId }, filter)))
  }
  const newest = tasks.toSorted((a, b) => b.id - a.id).slice(0, OVERVIEW.activity)
  const ids = [...new Set(newest.map((task) => task.environmentId))]
  const environments = ids.length === 0 ? [] : await listEnvironmentNames(ctx.db, ids)
  const identifiers = new Map(environments.map(({ id, identifier }) => [id, identifier]))
  const names = new Map(projects.map(({ id, name }) => [id, name]))
  return newest.map((task) => ({
    task,
    projectName: names.get(task.projectId) ?? '',
    identifier: identifiers.get(task.environmentId) ?? null,
  }))
}
