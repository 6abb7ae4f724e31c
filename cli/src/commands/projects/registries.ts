// berth registry: credentials of image registries, of a project or with --all-projects of its whole organization. The
// password is typed or read from stdin, never an argument, and never printed.
import { randomUUID } from 'node:crypto'
import { REGISTRY_HOST, registryHost } from '@berth/shared'
import { Registry } from '@berth/shared/api'
import { type Api, removeAt } from '../../client/api.ts'
import { findProject } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { findOrganization } from '../people/orgs.ts'
import { askSecret, confirmYes, mayAsk } from '../prompt.ts'

interface Owner {
  path: string
  name: string
}

interface OwnerOptions {
  isForAll: boolean
}

async function findOwner(
  api: Api,
  context: Context,
  { isForAll }: OwnerOptions,
  why: 'read' | 'change',
): Promise<Owner> {
  if (isForAll) {
    const { id, name } = await findOrganization(api)
    return { path: `/api/organizations/${id}/registries`, name: `all projects of ${name}` }
  }
  const { id, name } = await findProject(api, context, why)
  return { path: `/api/projects/${id}/registries`, name }
}

const parseOwner = ({ flags }: Invocation): OwnerOptions => ({
  isForAll: flagOn(flags, 'allProjects'),
})

async function performList(options: OwnerOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const owner = await findOwner(api, context, options, 'read')
  const { items, raw } = await api.list(owner.path, Registry)
  const origin = ({ from }: Registry): string =>
    from === 'project' ? 'this project' : 'all projects'
  await screen.printList({
    rows: items,
    raw,
    header: ['REGISTRY', 'USERNAME', 'FOR', 'UPDATED', 'BY'],
    human: (registry) => [
      { text: registry.host, style: 'bold' },
      registry.username,
      origin(registry),
      formatAgo(registry.updated_at, io.now()),
      registry.updated_by.name,
    ],
    plain: (registry) => [
      registry.host,
      registry.username,
      registry.from,
      registry.updated_at,
      registry.updated_by.name,
    ],
    empty: `No registries of ${owner.name} yet: berth registry add HOST`,
  })
  if (screen.human && items.length > 0) await screen.note('(passwords are never shown)')
  return EXIT.done
}

export const registryList = compose(parseOwner, performList)

interface OneOptions extends OwnerOptions {
  host: string
}

function parseOne(invocation: Invocation): OneOptions {
  const host = registryHost(invocation.args[0] ?? '')
  if (!REGISTRY_HOST.test(host)) {
    throw usage('HOST is not valid', 'give it as ghcr.io or registry.example.com:5000')
  }
  return { ...parseOwner(invocation), host }
}

const HOW = 'type it when asked, or pipe it in with --password-stdin'

async function readPassword(fromStdin: boolean, context: Context): Promise<string> {
  const { io } = context
  if (!fromStdin) {
    if (!mayAsk(context)) throw usage('the password is missing', HOW)
    return askSecret(context, 'Password: ')
  }
  if (io.stdin.isTTY) throw usage('the password is read from stdin, which is a terminal', HOW)
  return (await io.stdin.read(CLIENT.stdinBytes)).replace(/\r?\n$/, '')
}

interface AddOptions extends OneOptions {
  username: string
  fromStdin: boolean
}

function parseAdd(invocation: Invocation): AddOptions {
  const username = flagText(invocation.flags, 'username')
  if (!username) throw usage('--username is missing')
  return {
    ...parseOne(invocation),
    username,
    fromStdin: flagOn(invocation.flags, 'passwordStdin'),
  }
}

async function performAdd(options: AddOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const { username, host } = options
  const password = await readPassword(options.fromStdin, context)
  if (password === '') throw usage('the password is empty', HOW)
  const api = await context.connect()
  const owner = await findOwner(api, context, options, 'change')
  const path = `${owner.path}/${encodeURIComponent(host)}`
  const { value, raw } = await api.change('PUT', path, Registry, {
    body: { username, password },
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const mark = screen.err.paint('green', '✓')
  const text = `${value.host} as ${value.username} for ${owner.name}, from the next deployment on`
  await screen.note(`${mark} ${cleanText(text)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(cleanText(value.host))
  return EXIT.done
}

export const registryAdd = compose(parseAdd, performAdd)

async function performRemove(options: OneOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const owner = await findOwner(api, context, options, 'change')
  await confirmYes(context, `Remove the credentials of ${options.host} from ${owner.name}?`)
  await removeAt(api, `${owner.path}/${encodeURIComponent(options.host)}`)
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} Removed ${cleanText(options.host)} from ${cleanText(owner.name)}`)
  if (screen.json) await screen.printJson({ removed: options.host })
  else if (!screen.human) await screen.print(cleanText(options.host))
  return EXIT.done
}

export const registryRemove = compose(parseOne, performRemove)
