// Organizations, roles and machines: foreign ids answer as missing ones, and lower roles can do less.
import type { Environment } from '@berth/shared/api'
import { type Case, found, must } from '../case.ts'
import { type AttackedInstallation, CANARY } from '../target.ts'

const MISSING = 2_000_000_001

/** Removes the request's own id and path. */
const strip = (text: string): string =>
  text.replace(/req_[\w-]+/g, 'R').replace(/"instance":"[^"]*"/, '"instance":"I"')

/** A foreign id gets exactly the answer of one that does not exist. */
const foreign = (
  what: string,
  method: string,
  path: (w: AttackedInstallation, id: number) => string,
  id: (w: AttackedInstallation) => number,
  body?: unknown,
): Case => ({
  subject: 'tenants',
  title: `another organization’s ${what} answers as a missing one to ${method}`,
  isImportant: what === 'environment',
  async control(w) {
    if (method !== 'GET') return
    const { status } = await w.api(w.fixture.token, method, path(w, id(w)), body)
    must(status < 300, `its own people get ${status}`)
  },
  async attack(w) {
    const theirs = await w.api(w.stranger, method, path(w, id(w)), body)
    const none = await w.api(w.stranger, method, path(w, MISSING), body)
    if (theirs.status < 400) return `${theirs.status} ${theirs.text.slice(0, 100)}`
    return strip(theirs.text) === strip(none.text) && theirs.status === none.status
      ? undefined
      : `a foreign one: ${theirs.status} ${strip(theirs.text).slice(0, 80)}, a missing one: ${none.status}`
  },
})

const refused = (
  title: string,
  make: (w: AttackedInstallation) => Promise<{ status: number; text: string }>,
  control: (w: AttackedInstallation) => Promise<{ status: number; text: string }>,
): Case => ({
  subject: 'tenants',
  title,
  async control(w) {
    const { status, text } = await control(w)
    must(status < 300, `the honest way is answered ${status} ${text.slice(0, 100)}`)
  },
  async attack(w) {
    const { status, text } = await make(w)
    return status >= 400 ? undefined : `${status} ${text.slice(0, 100)}`
  },
})

let spares = 0
/** An environment that nothing depends on. */
const spare = (w: AttackedInstallation): Promise<Environment> => {
  spares += 1
  return w.fixture.environment(w.mallory.project.id, `spare-${spares}`)
}

const environmentOf = (w: AttackedInstallation): number => w.victim.environment.id
const variables = (w: AttackedInstallation): string =>
  `/api/environments/${environmentOf(w)}/variables`

export const TENANTS: Case[] = [
  foreign('environment', 'GET', (_, id) => `/api/environments/${id}`, environmentOf),
  foreign('environment', 'POST', (_, id) => `/api/environments/${id}/tasks`, environmentOf, {}),
  foreign('environment', 'DELETE', (_, id) => `/api/environments/${id}`, environmentOf),
  foreign('environment', 'PATCH', (_, id) => `/api/environments/${id}/variables`, environmentOf, {
    set: { A: 'b' },
  }),
  foreign(
    'project',
    'GET',
    (_, id) => `/api/projects/${id}`,
    (w) => w.victim.project.id,
  ),
  foreign(
    'server',
    'GET',
    (_, id) => `/api/servers/${id}`,
    (w) => w.fixture.serverId,
  ),
  refused(
    'a viewer cannot deploy',
    (w) => w.api(w.viewer, 'POST', `/api/environments/${environmentOf(w)}/tasks`, {}),
    (w) => w.api(w.viewer, 'GET', `/api/environments/${environmentOf(w)}`),
  ),
  refused(
    'a viewer cannot change variables',
    (w) => w.api(w.viewer, 'PATCH', variables(w), { set: { A: 'b' } }),
    (w) => w.api(w.viewer, 'GET', variables(w)),
  ),
  refused(
    'a viewer gets no certificate for a shell',
    (w) =>
      w.api(w.viewer, 'POST', `/api/servers/${w.fixture.serverId}/ssh`, certificate(w, 'shell')),
    (w) =>
      w.api(w.viewer, 'POST', `/api/servers/${w.fixture.serverId}/ssh`, certificate(w, 'logs')),
  ),
  refused(
    'a member cannot add a server or raise a limit',
    (w) =>
      w.api(w.member, 'PUT', `/api/projects/${w.victim.project.id}/environment_limit`, {
        limit: 100,
      }),
    (w) => w.api(w.member, 'GET', `/api/projects/${w.victim.project.id}`),
  ),
  refused(
    'a foreign organization’s header opens nothing',
    (w) => w.api(w.stranger, 'GET', '/api/projects', undefined, { 'x-service-organization': '1' }),
    (w) =>
      w.api(w.stranger, 'GET', '/api/projects', undefined, {
        'x-service-organization': String(w.strangerOrganization),
      }),
  ),
  {
    subject: 'tenants',
    title: 'a stranger’s lists hold nothing of others',
    control: async (w) =>
      must(
        (await w.api(w.fixture.token, 'GET', '/api/projects')).text.includes('"shop"'),
        'its own people do not see it',
      ),
    async attack(w) {
      for (const path of ['/api/projects', '/api/servers', '/api/organizations', '/api/me']) {
        const got = found((await w.api(w.stranger, 'GET', path)).text, /"shop"|"Acme"/)
        if (got) return `${path}: ${got}`
      }
      return undefined
    },
  },
  {
    subject: 'tenants',
    title: 'no answer of the API holds the value of a variable, for any role',
    isImportant: true,
    control: async (w) =>
      must(
        (await w.api(w.fixture.token, 'GET', variables(w))).text.includes('SECRET'),
        'the key is not listed',
      ),
    async attack(w) {
      const id = environmentOf(w)
      const tasks = JSON.parse(
        (await w.api(w.fixture.token, 'GET', `/api/environments/${id}/tasks`)).text,
      ) as { id: number }[]
      const paths = [
        variables(w),
        `/api/environments/${id}`,
        `/api/projects/${w.victim.project.id}/environments`,
        `/api/environments/${id}/diagnostics`,
        `/api/organizations/1/audit`,
        '/api/admin/audit',
        ...tasks.flatMap((t) => [`/api/tasks/${t.id}`, `/api/tasks/${t.id}/log`]),
      ]
      for (const path of paths) {
        for (const who of [w.fixture.token, w.viewer, w.member]) {
          const got = found((await w.api(who, 'GET', path)).text, CANARY)
          if (got) return `${path}: ${got}`
        }
      }
      return undefined
    },
  },
  {
    subject: 'tenants',
    title: 'a confirmation that does not match deletes nothing',
    control: spare,
    async attack(w) {
      const { id } = await spare(w)
      const { status } = await w.api(
        w.fixture.token,
        'DELETE',
        `/api/environments/${id}?confirm=wrong`,
      )
      return status < 400 ? `answered ${status}` : undefined
    },
  },
]

const certificate = (w: AttackedInstallation, purpose: string) => ({
  public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKTphRrBoRz3q2o0rCJtGWxFu9ZyPJHG1rsfXm4Lz1qD',
  purpose,
  environment_id: w.victim.environment.id,
})
