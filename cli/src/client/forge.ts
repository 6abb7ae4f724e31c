// Connections to forges, through which the control plane installs deploy keys and webhooks. A control plane that knows
// none of this answers 404, which means "not connected".
import { ForgeConnection, ProjectForge } from '@berth/shared/api'
import type { z } from 'zod'
import type { Api } from './api.ts'
import { ApiFailure } from './problem.ts'

const Connection = ForgeConnection.pick({ id: true, provider: true, api_url: true })
type Connection = z.infer<typeof Connection>

const Connected = ProjectForge.pick({ connected: true, checks: true })
type Connected = z.infer<typeof Connected>

const isUnknown = (error: unknown): boolean => error instanceof ApiFailure && error.status === 404
const REFUSED = [409, 422]

/** api.github.com is github.com's; other forges have their API at their own name, or below another one. */
const hostOf = (connection: Connection): string =>
  URL.canParse(connection.api_url)
    ? new URL(connection.api_url).hostname.replace(/^api\./, '')
    : connection.api_url

/** Connections that may know a repository at `host`, the likeliest first. */
export const fittingConnections = (known: readonly Connection[], host: string): Connection[] =>
  known.toSorted((a, b) => Number(hostOf(b) === host) - Number(hostOf(a) === host))

/** The connection that opens the repository; null: none does, or none is there. */
export async function connectForge(
  api: Api,
  project: { id: number; organization_id: number },
  host: string,
): Promise<Connected | null> {
  const path = `/api/projects/${project.id}/forge`
  try {
    const now = await api.get(path, Connected)
    if (now.value.connected) return now.value
    const list = `/api/organizations/${project.organization_id}/forges`
    const { items } = await api.list(list, Connection)
    for (const { id } of fittingConnections(items, host)) {
      try {
        const body = { connection_id: id }
        return (await api.change('PUT', path, Connected, { body, expect: 200 })).value
      } catch (error) {
        const isAnother = error instanceof ApiFailure && REFUSED.includes(error.status ?? 0)
        if (!isAnother) throw error
      }
    }
    return null
  } catch (error) {
    if (isUnknown(error)) return null
    throw error
  }
}

/** Where people add a deploy key and a webhook by hand; null: a forge whose pages are not known. */
export function forgePages(host: string, path: string): { keys: string; hooks: string } | null {
  const at = `https://${host}/${path}`
  switch (host) {
    case 'github.com':
      return { keys: `${at}/settings/keys/new`, hooks: `${at}/settings/hooks/new` }
    case 'gitlab.com':
      return { keys: `${at}/-/settings/repository`, hooks: `${at}/-/hooks` }
    case 'bitbucket.org':
      return { keys: `${at}/admin/access-keys/`, hooks: `${at}/admin/webhooks` }
    case 'codeberg.org':
      return { keys: `${at}/settings/keys`, hooks: `${at}/settings/hooks` }
    default:
      return null
  }
}
