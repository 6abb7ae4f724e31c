// berth project connect and disconnect, and berth repos: the connection of a project to its forge. The token is typed or
// read from stdin, never an argument, and never printed.
import { randomUUID } from 'node:crypto'
import {
  ForgeConnection,
  ForgeDisconnected,
  ForgeRepository,
  ProjectDetail,
  ProjectForge,
} from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findProject } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, parseCount } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { findOrganization } from '../people/orgs.ts'
import { askSecret, confirmYes, mayAsk } from '../prompt.ts'

const HOW = 'type it when asked, or pipe it in with --with-token'

async function readToken(fromStdin: boolean, context: Context): Promise<string> {
  const { io } = context
  if (!fromStdin) {
    if (!mayAsk(context)) throw usage('the token of the forge is missing', HOW)
    return (await askSecret(context, 'Token of the forge: ')).trim()
  }
  if (io.stdin.isTTY) throw usage('the token is read from stdin, which is a terminal', HOW)
  return (await io.stdin.read(CLIENT.stdinBytes)).trim()
}

interface ConnectOptions {
  project: string | undefined
  forge: string | undefined
  api: string | undefined
  connection: number | undefined
  withToken: boolean
}

function parseConnect({ args, flags, globals }: Invocation): ConnectOptions {
  const connection = flagText(flags, 'connection')
  const withToken = flagOn(flags, 'withToken')
  if (connection !== undefined && withToken) throw usage('--connection or --with-token, not both')
  return {
    project: args[0] ?? globals.project,
    forge: flagText(flags, 'forge'),
    api: flagText(flags, 'api'),
    connection:
      connection === undefined ? undefined : parseCount('--connection', connection, 999_999_999),
    withToken,
  }
}

/** What to connect with: named, typed or piped, or the connection that there is already. */
async function chooseBody(
  api: Api,
  context: Context,
  options: ConnectOptions,
  project: ProjectDetail,
): Promise<object> {
  if (options.connection !== undefined) return { connection_id: options.connection }
  const isNew = options.withToken || options.forge !== undefined || options.api !== undefined
  const { value: now } = await api.get(`/api/projects/${project.id}/forge`, ProjectForge)
  if (!isNew && now.connection) return { connection_id: now.connection.id }
  const token = await readToken(options.withToken, context)
  if (token === '') throw usage('the token is empty', HOW)
  return {
    token,
    ...(options.forge === undefined ? {} : { provider: options.forge }),
    ...(options.api === undefined ? {} : { api_url: options.api }),
  }
}

async function printForge(context: Context, forge: ProjectForge, raw: unknown): Promise<void> {
  const { screen } = context
  if (screen.json) return screen.printJson(raw)
  for (const check of forge.checks) {
    if (!screen.human) {
      const cells = [check.status, check.name, check.message, check.permission ?? '-']
      await screen.print(cells.map(cleanText).join('\t'))
      continue
    }
    const marks = { ok: ['green', '✓'], failed: ['red', '✗'], unknown: ['yellow', '?'] } as const
    const [colour, mark] = marks[check.status]
    const name = check.name.replace('_', ' ')
    const text = cleanText(`${name}: ${check.message}`)
    await screen.print(`${screen.out.paint(colour, mark)} ${text}`)
  }
}

async function performConnect(options: ConnectOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const globals = { ...context.globals, project: options.project }
  const { id } = await findProject(api, { ...context, globals }, 'change')
  const { value: project } = await api.get(`/api/projects/${id}`, ProjectDetail)
  const body = await chooseBody(api, context, options, project)
  const { value, raw } = await api.change('PUT', `/api/projects/${id}/forge`, ProjectForge, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
    timeoutMs: CLIENT.forgeMs,
  })
  await printForge(context, value, raw)
  const at = value.connection
  const where = at ? `${at.provider} (${at.api_url})` : 'its forge'
  const isBroken = value.status === 'broken'
  const mark = isBroken ? screen.err.paint('red', '✗') : screen.err.paint('green', '✓')
  const text = isBroken
    ? `${project.name} is connected to ${value.repository} at ${where}, but not everything works`
    : `${project.name} is connected to ${value.repository} at ${where}`
  await screen.note(`${mark} ${cleanText(text)}`)
  return isBroken ? EXIT.refused : EXIT.done
}

export const projectConnect = compose(parseConnect, performConnect)

async function performDisconnect(
  options: { project: string | undefined },
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const globals = { ...context.globals, project: options.project }
  const { id, name } = await findProject(api, { ...context, globals }, 'change')
  await confirmYes(context, `Remove the deploy key and the webhook of ${name} at its forge?`)
  const path = `/api/projects/${id}/forge`
  const { value, raw } = await api.change('DELETE', path, ForgeDisconnected, {
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  for (const { what, message } of value.left) {
    const text = `The ${what.replace('_', ' ')} is still there: ${message}`
    await screen.note(`${screen.err.paint('yellow', '!')} ${cleanText(text)}`)
  }
  await screen.note(`${screen.err.paint('green', '✓')} Disconnected ${cleanText(name)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(value.removed.join('\t'))
  return EXIT.done
}

export const projectDisconnect = compose(
  ({ args, globals }: Invocation) => ({ project: args[0] ?? globals.project }),
  performDisconnect,
)

const REPOSITORIES = 100

interface ReposOptions {
  search: string | undefined
  connection: number | undefined
}

async function findConnections(api: Api, only: number | undefined): Promise<ForgeConnection[]> {
  const { id, name } = await findOrganization(api)
  const { items } = await api.list(`/api/organizations/${id}/forges`, ForgeConnection)
  if (items.length === 0) {
    const hint = 'connect one: berth project connect PROJECT'
    throw new CliError(EXIT.refused, `${name} is not connected to a forge`, hint)
  }
  const chosen = only === undefined ? items : items.filter((one) => one.id === only)
  if (chosen.length > 0) return chosen
  const known = items.map((one) => `${one.id} (${one.provider}, ${one.api_url})`).join(', ')
  throw new CliError(EXIT.notFound, `no connection ${only}`, `there are: ${known}`)
}

async function performRepos(options: ReposOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const found: { connection: ForgeConnection; repository: ForgeRepository; raw: unknown }[] = []
  for (const connection of await findConnections(api, options.connection)) {
    const query = { per_page: 50, ...(options.search ? { search: options.search } : {}) }
    const path = `/api/forges/${connection.id}/repositories`
    const { items, raw } = await api.list(path, ForgeRepository, { query, limit: REPOSITORIES })
    items.forEach((repository, i) => void found.push({ connection, repository, raw: raw[i] }))
  }
  await screen.printList({
    rows: found,
    raw: found.map((one) => one.raw),
    header: ['REPOSITORY', 'FORGE', 'BRANCH', 'CHANGED', 'PROJECTS', 'ADDRESS'],
    human: ({ repository: r, connection }) => [
      { text: r.full_name, style: 'bold' },
      connection.provider,
      r.default_branch ?? '-',
      r.updated_at === null ? '-' : formatAgo(r.updated_at, io.now()),
      r.project_ids.join(', ') || '-',
      r.ssh_url || r.https_url,
    ],
    plain: ({ repository: r, connection }) => [
      r.full_name,
      connection.provider,
      r.default_branch ?? '',
      r.updated_at ?? '',
      r.project_ids.join(','),
      r.ssh_url || r.https_url,
    ],
    empty: 'No repository was found. The token may open none, or the name fits none.',
  })
  return EXIT.done
}

export const repos = compose(({ args, flags }: Invocation): ReposOptions => {
  const connection = flagText(flags, 'connection')
  return {
    search: args[0],
    connection:
      connection === undefined ? undefined : parseCount('--connection', connection, 999_999_999),
  }
}, performRepos)
