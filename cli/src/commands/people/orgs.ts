// berth orgs: list, use. The choice is stored in the credentials file beside its login; -o and BERTH_ORG override it.
import { Me, OrganizationDetail } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { credentialsPath, updateCredentials } from '../../client/credentials.ts'
import { type Context, compose, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { suggest } from '../../terminal/suggest.ts'
import { cleanText } from '../../terminal/text.ts'

type Organization = Me['organizations'][number]

function matchOrganization(word: string, known: readonly Organization[]): Organization {
  const found = known.find((o) => o.slug === word || o.name === word || String(o.id) === word)
  if (found) return found
  const slugs = known.map((one) => one.slug)
  throw new CliError(
    EXIT.notFound,
    `no organization '${word}'`,
    suggest(word, slugs, 'organizations'),
  )
}

/** The organization of a command: named, chosen, or the only one. */
export async function findOrganization(api: Api): Promise<Organization> {
  const { value: me } = await api.get('/api/me', Me)
  const current = me.organizations.find((one) => one.id === me.current_organization_id)
  const [only, another] = me.organizations
  if (current) return current
  if (only && !another) return only
  if (!only) throw new CliError(EXIT.refused, 'you belong to no organization')
  const slugs = me.organizations.map((one) => one.slug).join(', ')
  throw usage('which organization?', `name it with -o ORG: ${slugs}`)
}

async function performOrgsList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const path = '/api/organizations'
  const { items, raw } = await api.list(path, OrganizationDetail, { query: { per_page: 100 } })
  await screen.printList({
    rows: items,
    raw,
    header: ['ORG', 'NAME', 'ROLE', 'PROJECTS', 'SERVERS', 'PEOPLE'],
    human: (one) => [
      { text: one.slug, style: 'bold' },
      one.name,
      one.role,
      String(one.project_count),
      String(one.server_count),
      String(one.member_count),
    ],
    plain: (one) => [
      String(one.id),
      one.slug,
      one.name,
      one.role,
      String(one.project_count),
      String(one.server_count),
      String(one.member_count),
    ],
    empty: 'You belong to no organization yet. Somebody must invite you.',
  })
  return EXIT.done
}

export const orgsList = compose(() => undefined, performOrgsList)

async function performOrgsUse({ word }: { word: string }, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  if (io.env.BERTH_TOKEN || io.env.BERTH_TOKEN_FILE) {
    throw usage('BERTH_TOKEN is set: there is no login to remember it with', 'set BERTH_ORG')
  }
  const api = await context.connect()
  const chosen =
    word === '-'
      ? null
      : matchOrganization(word, (await api.get('/api/me', Me)).value.organizations)
  await updateCredentials(credentialsPath(io.env), io, (before) => {
    const entry = before[api.baseUrl]
    if (!entry) return undefined
    return { ...before, [api.baseUrl]: { ...entry, organization_id: chosen?.id ?? null } }
  })
  const what = chosen ? `in ${cleanText(chosen.name)}` : 'in all your organizations'
  await screen.note(`${screen.err.paint('green', '✓')} Commands work ${what} from now on`)
  if (screen.json) await screen.printJson({ organization_id: chosen?.id ?? null })
  else if (!screen.human) await screen.print(chosen ? `${chosen.id}\t${chosen.slug}` : '-')
  return EXIT.done
}

export const orgsUse = compose(({ args }: Invocation) => ({ word: args[0] ?? '' }), performOrgsUse)
