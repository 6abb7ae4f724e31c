// berth user role, remove, invitations, uninvite: changes of who belongs to an organization.
import { Invitation, Member } from '@berth/shared/api'
import { type Api, removeAt } from '../../client/api.ts'
import { type Context, compose, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatUntil } from '../../terminal/format.ts'
import { suggest } from '../../terminal/suggest.ts'
import { cleanText } from '../../terminal/text.ts'
import { confirmYes } from '../prompt.ts'
import { findOrganization } from './orgs.ts'

const ROLES = ['viewer', 'developer', 'admin', 'owner'] as const
type Role = (typeof ROLES)[number]

const membersOf = (organizationId: number): string => `/api/organizations/${organizationId}/members`

/** By e-mail, id or a name that only one member has. */
async function findMember(api: Api, organizationId: number, word: string): Promise<Member> {
  const query = { per_page: 100 }
  const { items } = await api.list(membersOf(organizationId), Member, { query })
  const wanted = word.toLowerCase()
  const exact = items.find(
    ({ user }) => user.email.toLowerCase() === wanted || String(user.id) === word,
  )
  if (exact) return exact
  const named = items.filter(({ user }) => user.name.toLowerCase() === wanted)
  const [only, another] = named
  if (only && !another) return only
  const mails = (only ? named : items).map(({ user }) => user.email)
  if (only) {
    const hint = `name one by e-mail: ${mails.slice(0, 5).join(', ')}`
    throw new CliError(EXIT.notFound, `several members are called '${word}'`, hint)
  }
  throw new CliError(EXIT.notFound, `no member '${word}'`, suggest(word, mails, 'members'))
}

interface RoleOptions {
  who: string
  role: Role
}

function parseRole({ args }: Invocation): RoleOptions {
  const [who = '', role = ''] = args
  if (!ROLES.includes(role as Role))
    throw usage(`ROLE is one of ${ROLES.join(', ')}, got '${role}'`)
  return { who, role: role as Role }
}

async function performRole({ who, role }: RoleOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const organization = await findOrganization(api)
  const member = await findMember(api, organization.id, who)
  const path = `${membersOf(organization.id)}/${member.user.id}`
  const { value, raw } = await api.change('PATCH', path, Member, { body: { role }, expect: 200 })
  const what =
    member.role === value.role
      ? `${value.user.name} is ${value.role} in ${organization.name} already`
      : `${value.user.name} is now ${value.role} in ${organization.name}, before ${member.role}`
  await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(what)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) {
    const cells = [String(value.user.id), value.user.email, value.role]
    await screen.print(cells.map(cleanText).join('\t'))
  }
  return EXIT.done
}

export const userRole = compose(parseRole, performRole)

const parseWord = ({ args }: Invocation): { word: string } => ({ word: args[0] ?? '' })

async function performRemove({ word }: { word: string }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const organization = await findOrganization(api)
  const { user } = await findMember(api, organization.id, word)
  await confirmYes(context, `Remove ${user.name} <${user.email}> from ${organization.name}?`)
  await removeAt(api, `${membersOf(organization.id)}/${user.id}`)
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`${user.name} has left ${organization.name}`)}`)
  if (screen.json) await screen.printJson({ removed: user.id })
  else if (!screen.human) await screen.print(`${user.id}\t${cleanText(user.email)}`)
  return EXIT.done
}

export const userRemove = compose(parseWord, performRemove)

const invitationsOf = (organizationId: number): string =>
  `/api/organizations/${organizationId}/invitations`

async function performInvitations(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const organization = await findOrganization(api)
  const query = { per_page: 100 }
  const { items, raw } = await api.list(invitationsOf(organization.id), Invitation, { query })
  await screen.printList({
    rows: items,
    raw,
    header: ['ID', 'EMAIL', 'ROLE', 'BY', 'STATE'],
    human: (one) => [
      String(one.id),
      { text: one.email, style: 'bold' },
      one.role,
      one.invited_by.name,
      one.status === 'pending' ? formatUntil(one.expires_at, io.now()) : one.status,
    ],
    plain: (one) => [String(one.id), one.email, one.role, one.invited_by.name, one.status],
    empty: `No invitations to ${organization.name}. Invite a person: berth user invite EMAIL --role ROLE`,
  })
  return EXIT.done
}

export const userInvitations = compose(() => undefined, performInvitations)

async function performUninvite({ word }: { word: string }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const organization = await findOrganization(api)
  const path = invitationsOf(organization.id)
  const { items } = await api.list(path, Invitation, { query: { per_page: 100 } })
  const wanted = word.toLowerCase()
  const found = items.find(
    ({ id, email, status }) =>
      status !== 'accepted' && (email.toLowerCase() === wanted || String(id) === word),
  )
  if (!found) {
    const mails = items.filter(({ status }) => status !== 'accepted').map(({ email }) => email)
    const hint = suggest(word, mails, 'invitations')
    throw new CliError(EXIT.notFound, `no invitation of '${word}'`, hint)
  }
  await removeAt(api, `${path}/${found.id}`)
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`Withdrew the invitation of ${found.email}`)}`)
  if (screen.json) await screen.printJson({ withdrawn: found.id })
  else if (!screen.human) await screen.print(`${found.id}\t${cleanText(found.email)}`)
  return EXIT.done
}

export const userUninvite = compose(parseWord, performUninvite)
