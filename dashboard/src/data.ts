// Queries that several pages share.
import { useQuery } from '@tanstack/react-query'
import { api, trpc } from './api.ts'
import { useOrganization } from './organization.ts'

/** The projects of the current organization. The header names it, so it is part of the cache key. */
export function useProjects() {
  const organization = useOrganization()
  return useQuery({
    queryKey: [...trpc.project.list.queryKey(), organization?.id],
    queryFn: ({ signal }) =>
      api.project.list.query(undefined, { signal, context: { organization: organization?.id } }),
    enabled: organization !== undefined,
  })
}

/** Across the projects of the current organization: newest deployments, and what waits for a person. */
export function useOverview() {
  const organization = useOrganization()
  return useQuery({
    queryKey: [...trpc.project.overview.queryKey(), organization?.id],
    queryFn: ({ signal }) =>
      api.project.overview.query(undefined, {
        signal,
        context: { organization: organization?.id },
      }),
    enabled: organization !== undefined,
  })
}

export const useProject = (id: number) =>
  useQuery(trpc.project.get.queryOptions({ project_id: id }))
export const useEnvironments = (id: number) =>
  useQuery(trpc.environment.list.queryOptions({ project_id: id }))
export const useEnvironment = (id: number) =>
  useQuery(trpc.environment.get.queryOptions({ environment_id: id }))
export const useTasks = (id: number) =>
  useQuery(trpc.task.list.queryOptions({ environment_id: id, limit: 20 }))

/** The servers of the current organization. */
export function useServers() {
  const organization = useOrganization()
  return useQuery({
    queryKey: [...trpc.server.list.queryKey(), organization?.id],
    queryFn: ({ signal }) =>
      api.server.list.query(undefined, { signal, context: { organization: organization?.id } }),
    enabled: organization !== undefined,
  })
}

export const useMembers = (organizationId: number | undefined) =>
  useQuery({
    ...trpc.member.list.queryOptions({ organization_id: organizationId ?? 1, limit: 100 }),
    enabled: organizationId !== undefined,
  })

type Router = typeof api
type Answer<T> = T extends { query(...args: never[]): Promise<infer A> } ? A : never
export type Environment = Answer<Router['environment']['get']>
export type Project = Answer<Router['project']['get']>
export type Overview = Answer<Router['project']['overview']>
export type Server = Answer<Router['server']['get']>
export type Task = Answer<Router['task']['list']>['tasks'][number]
export type PullRequest = Answer<Router['pullRequest']['list']>['pull_requests'][number]
