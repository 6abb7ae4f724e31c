// berth org create, rename, remove.
import { randomUUID } from 'node:crypto'
import { OrganizationCreate, OrganizationDetail, OrganizationUpdate } from '@berth/shared/api'
import { removeAt } from '../../client/api.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { invalidInput } from '../projects/projects.ts'
import { confirmName } from '../prompt.ts'
import { findOrganization } from './orgs.ts'

async function report(
  { screen }: Context,
  what: string,
  { value, raw }: { value: OrganizationDetail; raw: unknown },
): Promise<ExitCode> {
  await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(what)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) {
    await screen.print([String(value.id), value.slug, value.name].map(cleanText).join('\t'))
  }
  return EXIT.done
}

function parseCreate({ args, flags }: Invocation): OrganizationCreate {
  const slug = flagText(flags, 'slug')
  const checked = OrganizationCreate.safeParse({
    name: args[0],
    ...(slug === undefined ? {} : { slug }),
  })
  if (checked.success) return checked.data
  throw invalidInput(checked.error.issues)
}

async function performCreate(body: OrganizationCreate, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const read = await api.post('/api/organizations', OrganizationDetail, {
    body,
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  const { name, slug } = read.value
  const what = `Created ${name}, and you own it. Work in it: berth org use ${slug}`
  return report(context, what, read)
}

export const orgCreate = compose(parseCreate, performCreate)

function parseRename({ args, flags }: Invocation): OrganizationUpdate {
  const [name] = args
  const slug = flagText(flags, 'slug')
  if (name === undefined && slug === undefined) {
    throw usage('nothing to change', 'berth org rename NAME, --slug SLUG, or both')
  }
  const checked = OrganizationUpdate.safeParse({
    ...(name === undefined ? {} : { name }),
    ...(slug === undefined ? {} : { slug }),
  })
  if (checked.success) return checked.data
  throw invalidInput(checked.error.issues)
}

async function performRename(body: OrganizationUpdate, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const before = await findOrganization(api)
  const read = await api.change('PATCH', `/api/organizations/${before.id}`, OrganizationDetail, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const { name, slug } = read.value
  return report(context, `${before.name} (${before.slug}) is now ${name} (${slug})`, read)
}

export const orgRename = compose(parseRename, performRename)

async function performRemove(
  { confirm }: { confirm: string | undefined },
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { id, name, slug } = await findOrganization(api)
  const what = `this removes the organization ${name} and its members' access`
  const typed = await confirmName(context, confirm, slug, what)
  await removeAt(api, `/api/organizations/${id}`, { confirm: typed })
  await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(name)} is removed`)
  if (screen.json) await screen.printJson({ removed: id })
  else if (!screen.human) await screen.print(`${id}\t${cleanText(slug)}`)
  return EXIT.done
}

export const orgRemove = compose(
  ({ flags }: Invocation) => ({ confirm: flagText(flags, 'confirm') }),
  performRemove,
)
