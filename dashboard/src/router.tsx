// Every address there is, and the page it shows. Pages are loaded when they are needed; ids in addresses are numbers or
// the page does not exist.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  Outlet,
  useLocation,
} from '@tanstack/react-router'
import { useEffect } from 'react'
import { problemOf } from './api.ts'
import { ErrorState, Skeleton } from './components/states.tsx'
import { useMe } from './organization.ts'
import { NotFound } from './pages/not-found.tsx'
import { beginSession } from './session.ts'
import { Shell } from './shell/shell.tsx'

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound })

/** Pages of somebody signed in. */
function Inside() {
  const me = useMe()
  const { href } = useLocation()
  const isIn = me.data !== undefined
  useEffect(() => {
    if (isIn) beginSession()
  }, [isIn])
  if (me.data) return <Shell me={me.data} />
  if (!me.isError) return <Skeleton />
  if (problemOf(me.error).status === 401) {
    return <Navigate to="/login" search={href === '/' ? {} : { next: href }} replace />
  }
  return <ErrorState what="Your account" error={me.error} again={() => void me.refetch()} />
}

const inside = createRoute({ getParentRoute: () => root, id: 'inside', component: Inside })

type Load = () => Promise<Record<string, React.ComponentType>>
const open = (path: string, load: Load, name: string) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyRouteComponent(load, name),
    validateSearch: (search: Record<string, unknown>) => search as Record<string, string>,
  })
const page = (path: string, load: Load, name: string) =>
  createRoute({
    getParentRoute: () => inside,
    path,
    component: lazyRouteComponent(load, name),
    validateSearch: (search: Record<string, unknown>) => search as Record<string, string>,
  })

const people = () => import('./pages/people.tsx')
const project = () => import('./pages/project.tsx')
const environment = () => import('./pages/environment.tsx')

const tree = root.addChildren([
  open('/login', people, 'Login'),
  inside.addChildren([
    page('/', () => import('./pages/projects.tsx'), 'Projects'),
    page('/projects/$id', project, 'ProjectEnvironments'),
    page('/environments/$id', environment, 'EnvironmentOverview'),
    page('/tasks/$id', () => import('./pages/task.tsx'), 'TaskPage'),
  ]),
])

export const router = createRouter({
  routeTree: tree,
  defaultNotFoundComponent: NotFound,
  defaultPendingMs: 150,
  scrollRestoration: true,
})
