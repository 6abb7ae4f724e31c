// Every address and the page it shows. Pages are loaded on demand; an address whose id is not a number has no page.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  useLocation,
  useMatches,
} from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'
import { problemOf } from './api.ts'
import { loadPage } from './components/loading/on-demand.tsx'
import { Page } from './components/page.tsx'
import { Redirect } from './components/redirect.tsx'
import { ErrorState, Skeleton } from './components/states.tsx'
import { type Me, useMe } from './organization.ts'
import { NotFound } from './pages/not-found.tsx'
import { beginSession } from './session.ts'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ component: Outlet, notFoundComponent: () => <NotFound /> })

/** Pages for signed-in users. */
function Inside() {
  const me = useMe()
  const { href, pathname } = useLocation()
  const isIn = me.data !== undefined
  useEffect(() => {
    if (isIn) beginSession()
  }, [isIn])
  const isUnknown = useMatches({ select: (all) => all.at(-1)?.routeId.endsWith('/$') ?? false })
  if (me.data && mustEnrol(me.data) && !pathname.startsWith('/account')) {
    return <Redirect to="/account" />
  }
  if (me.data) return <Shell me={me.data} />
  if (me.isError && problemOf(me.error).status === 401) {
    if (isUnknown) return <Bare of={<NotFound isSignedIn={false} />} />
    return <Redirect to="/login" {...(href === '/' ? {} : { next: href })} />
  }
  if (!me.isError) return <Bare of={<Skeleton />} />
  const failed = <ErrorState what="Your account" error={me.error} again={() => void me.refetch()} />
  return <Bare of={<Page title="Berth">{failed}</Page>} />
}

/** A page without the frame, which needs a signed-in user. */
function Bare({ of }: { of: ReactNode }) {
  return <main id="main">{of}</main>
}

/** Every organization of the user waits for a second factor. */
const mustEnrol = (me: Me): boolean =>
  me.organizations.length === 0 && me.waiting_organizations.length > 0

const inside = createRoute({ getParentRoute: () => root, id: 'inside', component: Inside })

type Load = () => Promise<object>
const lazy = (load: Load, name: string) => lazyRouteComponent(() => loadPage(load, name), name)
const options = (path: string, load: Load, name: string) => ({
  path,
  component: lazy(load, name),
  validateSearch: (search: Record<string, unknown>) => search as Record<string, string>,
})
const open = (path: string, load: Load, name: string) =>
  createRoute({ getParentRoute: () => root, ...options(path, load, name) })
const page = (path: string, load: Load, name: string) =>
  createRoute({ getParentRoute: () => inside, ...options(path, load, name) })

const people = () => import('./pages/people/people.tsx')
const server = () => import('./pages/servers/server.tsx')
const admin = () => import('./pages/installation/admin.tsx')
const projectSettings = () => import('./pages/projects/settings/settings.tsx')
const environment = (tab: string, load: Load, name: string) =>
  page(`/environments/$id${tab}`, load, name)

const tree = root.addChildren([
  open('/login', people, 'Login'),
  open('/reset', people, 'Forgot'),
  open('/reset/$token', people, 'Reset'),
  open('/setup', people, 'Setup'),
  open('/invite/$token', people, 'Invite'),
  open('/design', () => import('./pages/design/design.tsx'), 'Design'),
  open('/docs/service-file', () => import('./pages/service-file.tsx'), 'ServiceFile'),
  inside.addChildren([
    page('/', () => import('./pages/projects/home/projects.tsx'), 'Projects'),
    page('/device', () => import('./pages/people/device.tsx'), 'DevicePage'),
    page('/projects/new', () => import('./pages/projects/new/new-project.tsx'), 'NewProject'),
    page('/projects/$id', () => import('./pages/projects/project.tsx'), 'ProjectEnvironments'),
    page(
      '/projects/$id/deployments',
      () => import('./pages/projects/deployments.tsx'),
      'ProjectDeployments',
    ),
    page(
      '/projects/$id/webhooks',
      () => import('./pages/projects/webhooks.tsx'),
      'ProjectWebhooks',
    ),
    page(
      '/projects/$id/variables',
      () => import('./pages/projects/variables.tsx'),
      'ProjectVariables',
    ),
    page('/projects/$id/settings', projectSettings, 'ProjectSettings'),
    page('/projects/$id/settings/$part', projectSettings, 'ProjectSettings'),
    environment('', () => import('./pages/environments/environment.tsx'), 'EnvironmentOverview'),
    environment(
      '/deployments',
      () => import('./pages/environments/deployments.tsx'),
      'EnvironmentDeployments',
    ),
    environment('/logs', () => import('./pages/environments/logs.tsx'), 'EnvironmentLogs'),
    environment(
      '/variables',
      () => import('./pages/environments/variables.tsx'),
      'EnvironmentVariables',
    ),
    environment('/actions', () => import('./pages/environments/actions.tsx'), 'EnvironmentActions'),
    environment('/backups', () => import('./pages/environments/backups.tsx'), 'EnvironmentBackups'),
    environment(
      '/settings',
      () => import('./pages/environments/settings.tsx'),
      'EnvironmentSettings',
    ),
    page('/tasks/$id', () => import('./pages/deployments/task.tsx'), 'TaskPage'),
    page('/servers', () => import('./pages/servers/servers.tsx'), 'Servers'),
    page('/servers/$id', server, 'ServerPage'),
    page('/servers/$id/$part', server, 'ServerPage'),
    page('/org/members', () => import('./pages/people/members.tsx'), 'Members'),
    page('/org/settings', () => import('./pages/people/organization.tsx'), 'OrganizationSettings'),
    page('/org/notifications', () => import('./pages/notices/notifications.tsx'), 'Notifications'),
    page('/org/audit', () => import('./pages/installation/audit.tsx'), 'Audit'),
    page('/account', () => import('./pages/people/account/account.tsx'), 'Account'),
    page('/account/tokens', () => import('./pages/people/account/tokens.tsx'), 'Tokens'),
    page(
      '/account/authenticator',
      () => import('./pages/people/account/authenticator.tsx'),
      'Authenticator',
    ),
    page('/secrets/$id', () => import('./pages/secrets/secret.tsx'), 'SecretPage'),
    page('/admin', admin, 'Admin'),
    page('/admin/$part', admin, 'Admin'),
    createRoute({ getParentRoute: () => inside, path: '$', component: () => <NotFound /> }),
  ]),
])

export const router = createRouter({
  routeTree: tree,
  defaultNotFoundComponent: () => <NotFound />,
  defaultErrorComponent: ({ error, reset }) => (
    <ErrorState what="This page" error={error} again={reset} />
  ),
  defaultPendingMs: 150,
  scrollRestoration: true,
})
