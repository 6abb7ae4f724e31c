// berth user: list, invite. An invitation is an e-mail; the client never sees its link.
import { randomUUID } from 'node:crypto'
import { Invitation, InvitationCreate, Member } from '@berth/shared/api'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, formatUntil } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { findOrganization } from './orgs.ts'

async function performUserList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const organization = await findOrganization(api)
  const path = `/api/organizations/${organization.id}/members`
  const { items, raw } = await api.list(path, Member, { query: { per_page: 100 } })
  await screen.printList({
    rows: items,
    raw,
    header: ['NAME', 'EMAIL', 'ROLE', 'ACTIVE'],
    human: ({ user, role, last_active_at: active }) => [
      { text: user.name, style: 'bold' },
      user.email,
      role,
      formatAgo(active, io.now()),
    ],
    plain: ({ user, role, last_active_at: active }) => [
      String(user.id),
      user.name,
      user.email,
      role,
      active ?? '',
    ],
    empty: `Nobody is in ${organization.name}.`,
  })
  return EXIT.done
}

export const userList = compose(() => undefined, performUserList)

function parseUserInvite({ args, flags }: Invocation): InvitationCreate {
  const checked = InvitationCreate.safeParse({ email: args[0], role: flagText(flags, 'role') })
  if (checked.success) return checked.data
  throw usage(`'${args[0]}' is no e-mail address`)
}

async function performUserInvite(body: InvitationCreate, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const organization = await findOrganization(api)
  const path = `/api/organizations/${organization.id}/invitations`
  const { value, raw } = await api.post(path, Invitation, {
    body,
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  const mark = screen.err.paint('green', '✓')
  const life = formatUntil(value.expires_at, io.now())
  await screen.note(
    `${mark} ${cleanText(`Invited ${value.email} to ${organization.name} as ${value.role}; the link in the mail ${life}`)}`,
  )
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) {
    await screen.print([String(value.id), value.email, value.role].map(cleanText).join('\t'))
  }
  return EXIT.done
}

export const userInvite = compose(parseUserInvite, performUserInvite)
