// berth server: add, list, show, join-token. The join token is shown once, only on stdout, and works once.
import { randomUUID } from 'node:crypto'
import { isHostOrAddress, JoinToken, Server, ServerCreate } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { matchNamed, type Purpose } from '../../client/resolve.ts'
import { pauseMs, pollInterval } from '../../client/wait.ts'
import {
  type Context,
  compose,
  type Flags,
  flagOn,
  flagText,
  type Invocation,
} from '../../context.ts'
import { LiveBlock, spinnerFrame } from '../../progress/live.ts'
import { CliError, EXIT, type ExitCode, interrupted } from '../../terminal/exit.ts'
import { formatAgo, formatBytes, formatSpan } from '../../terminal/format.ts'
import type { Cell, Style } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'
import { invalidInput } from '../projects/projects.ts'
import { describeBuilds } from './build-summary.ts'

const STYLES: Partial<Record<Server['status'], readonly [string, Style]>> = {
  online: ['●', 'green'],
  pending: ['○', 'dim'],
  unknown: ['?', 'yellow'],
  draining: ['◐', 'cyan'],
  updating: ['◐', 'cyan'],
}

function statusCell(server: Server): Cell {
  const [mark, style] = STYLES[server.status] ?? ['✗', 'red']
  return { text: `${mark} ${server.status}${server.paused ? ', paused' : ''}`, style }
}

/** `1.15.0`, `1.15.0 outdated`, `1.15.0 → 1.16.0`, `1.15.0 not upgraded` */
function agentCell({ agent_version: version, agent_outdated: isOld, update }: Server): Cell {
  if (version === null) return { text: '-' }
  if (update?.state === 'offered' || update?.state === 'waiting') {
    return { text: `${version} → ${update.version}`, style: 'cyan' }
  }
  if (!isOld) return { text: version }
  const word = update?.state === 'failed' ? 'not upgraded' : 'outdated'
  return { text: `${version} ${word}`, style: 'yellow' }
}

/** Why the last upgrade did not succeed; what it is doing now. */
function describeUpdate({ update }: Server): string {
  if (!update) return ''
  const words = {
    waiting: 'waits for its turn',
    offered: 'is being installed',
    kept: 'was installed',
    failed: 'failed',
    skipped: 'was left out',
  }
  const reason = update.reason === null ? '' : `: ${update.reason}`
  return `${update.version} ${words[update.state]}${reason}`
}

export async function findServer(api: Api, word: string, purpose: Purpose): Promise<Server> {
  const { items } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
  return matchNamed(word, items, 'server', purpose)
}

async function performServerList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { items, raw } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
  await screen.printList({
    rows: items,
    raw,
    header: ['SERVER', 'STATUS', 'HOSTNAME', 'AGENT', 'ENVIRONMENTS', 'SEEN'],
    human: (server) => [
      { text: server.name, style: 'bold' },
      statusCell(server),
      server.hostname,
      agentCell(server),
      String(server.environment_count),
      server.last_seen_at === null ? 'never' : formatAgo(server.last_seen_at, io.now()),
    ],
    plain: (server) => [
      String(server.id),
      server.name,
      server.status,
      server.hostname,
      server.agent_version ?? '',
      String(server.environment_count),
      server.last_seen_at ?? '',
      server.agent_outdated ? 'outdated' : 'current',
      server.update?.state ?? '',
    ],
    empty: 'No servers yet. Add one with: berth server add NAME --hostname HOST',
  })
  return EXIT.done
}

export const serverList = compose(() => undefined, performServerList)

const parseName = ({ args }: Invocation): { name: string } => ({ name: args[0] ?? '' })

async function performServerShow(options: { name: string }, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { id } = await findServer(api, options.name, 'read')
  const { value: server, raw } = await api.get(`/api/servers/${id}`, Server)
  const { facts } = server
  const machine = facts
    ? `${facts.os} ${facts.arch}, ${facts.cpus} CPU, ${formatBytes(facts.memory_bytes)} memory`
    : ''
  const disk = facts
    ? `${formatBytes(facts.disk_free_bytes)} of ${formatBytes(facts.disk_bytes)} free`
    : ''
  const missing = server.parts.filter((part) => part.reason !== null)
  await screen.printFields(raw, [
    ['id', String(server.id)],
    ['name', { text: server.name, style: 'bold' }],
    ['hostname', server.hostname],
    ['status', screen.human ? statusCell(server) : server.status],
    ['agent', server.agent_version ?? ''],
    ['upgrade', describeUpdate(server)],
    ['seen', screen.human ? formatAgo(server.last_seen_at, io.now()) : (server.last_seen_at ?? '')],
    ['joined', server.joined_at ?? ''],
    ['machine', machine],
    ['disk', disk],
    ['docker', facts?.docker_version ?? ''],
    ['usage', describeUsage(server)],
    ['trust', describeTrust(server)],
    ['recipes', server.recipes.join(', ')],
    ['missing', missing.map((part) => `${part.name} (${part.reason})`).join(', ')],
    ['builds', describeBuilds(server)],
    ['task slots', describeTaskSlots(server)],
    ['environments', String(server.environment_count)],
    ['shared by', server.shared_by?.name ?? ''],
    ['shared with', server.shared_with.map(({ slug }) => slug).join(', ')],
  ])
  return EXIT.done
}

const describeTaskSlots = ({ settings, default_settings: usual }: Server): string =>
  String(settings.task_slots ?? usual?.task_slots ?? '')

/** From its last report; empty: it has not reported yet. */
function describeUsage({ usage }: Server): string {
  if (!usage) return ''
  const of = (used: number, all: number): string => `${formatBytes(used)} of ${formatBytes(all)}`
  const memory = of(usage.memory_used_bytes, usage.memory_bytes)
  const proxy = usage.proxy_ok ? '' : ', proxy down'
  return `${usage.cpu_percent} % CPU, ${memory} memory${proxy}`
}

const TRUST = {
  confirmed: 'newest SSH keys and revocations in force',
  told: 'newest SSH keys and revocations not confirmed yet',
  refused: 'newest SSH keys and revocations not in force',
  away: 'as of its last connection',
} as const

function describeTrust({ trust }: Server): string {
  if (!trust) return ''
  return trust.reason ? `${TRUST[trust.state]}: ${trust.reason}` : TRUST[trust.state]
}

export const serverShow = compose(parseName, performServerShow)

async function makeJoinToken(api: Api, server: Server, rejoin: boolean) {
  return api.post(`/api/servers/${server.id}/join_token`, JoinToken, {
    body: rejoin ? { rejoin: true } : {},
    idempotencyKey: randomUUID(),
    expect: 201,
  })
}

type Joining = Awaited<ReturnType<typeof makeJoinToken>>

async function printJoining(context: Context, server: Server, { value }: Joining): Promise<void> {
  const { screen, io } = context
  const lines = value.command.split('\n').map(cleanText)
  if (!screen.human) {
    const command = lines.map((line) => line.replace(/\\$/, '').trim()).join(' ')
    return screen.print([String(server.id), cleanText(server.name), command].join('\t'))
  }
  const left = formatSpan(Math.max(0, Date.parse(value.expires_at) - io.now()))
  await screen.print(
    `Run this on ${cleanText(server.name)} as root within ${left} (the token works once):\n`,
  )
  await screen.print(`${lines.map((line) => `  ${line}`).join('\n')}\n`)
}

/** undefined: wait for the agent if the terminal is interactive. */
const waitFlag = (flags: Flags): boolean | undefined =>
  typeof flags.wait === 'boolean' ? flags.wait : undefined

interface JoinTokenOptions {
  name: string
  rejoin: boolean
  wait: boolean | undefined
}

const parseJoinToken = ({ args, flags }: Invocation): JoinTokenOptions => ({
  name: args[0] ?? '',
  rejoin: flagOn(flags, 'rejoin'),
  wait: waitFlag(flags),
})

async function performJoinToken(options: JoinTokenOptions, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const server = await findServer(api, options.name, 'change')
  const joining = await makeJoinToken(api, server, options.rejoin).catch((error: unknown) => {
    if (!(error instanceof ApiFailure) || error.code !== 'server_already_joined') throw error
    throw new CliError(
      error.exitCode,
      error.message,
      'add --rejoin to let a new agent take its place',
    )
  })
  const { screen } = context
  if (screen.json) await screen.printJson(joining.raw)
  else await printJoining(context, server, joining)
  const waits = options.wait ?? (screen.live && screen.human)
  return waits ? waitForAgent(context, api, server, joining.value.expires_at) : EXIT.done
}

export const serverJoinToken = compose(parseJoinToken, performJoinToken)

interface ServerAddOptions {
  body: { name: string; hostname: string }
  wait: boolean | undefined
}

function parseServerAdd({ args, flags }: Invocation): ServerAddOptions {
  const checked = ServerCreate.safeParse({ name: args[0], hostname: flagText(flags, 'hostname') })
  if (!checked.success) throw invalidInput(checked.error.issues)
  if (!isHostOrAddress(checked.data.hostname)) {
    const message = 'must be a host name or an address'
    throw invalidInput([{ path: ['hostname'], message }])
  }
  return { body: checked.data, wait: waitFlag(flags) }
}

async function performServerAdd(options: ServerAddOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { value: server, raw } = await api.post('/api/servers', Server, {
    body: options.body,
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  const mark = screen.err.paint('green', '✓')
  const name = cleanText(server.name)
  await screen.note(`${mark} Server ${name} (id ${server.id}) created, waiting for its agent.`)
  let joining: Joining
  try {
    joining = await makeJoinToken(api, server, false)
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    const message = `the server was created, but not its join token: ${error.message}`
    throw new CliError(error.exitCode, message, `berth server join-token ${server.name}`)
  }
  if (screen.json) {
    await screen.printJson({ ...(raw as object), join_token: joining.raw })
  } else await printJoining(context, server, joining)
  const waits = options.wait ?? (screen.live && screen.human)
  const fresh = { ...server, joined_at: null }
  return waits ? waitForAgent(context, api, fresh, joining.value.expires_at) : EXIT.done
}

export const serverAdd = compose(parseServerAdd, performServerAdd)

/** 'fra-1 online: agent 1.15.0, Docker 28.2, Debian 13, 4 CPU, 8.0 GB' */
function onlineText({ name, agent_version: version, facts }: Server): string {
  const machine = facts
    ? [
        ...(facts.docker_version === null ? [] : [`Docker ${facts.docker_version}`]),
        facts.os,
        `${facts.cpus} CPU`,
        formatBytes(facts.memory_bytes),
      ]
    : []
  return [`${name} online: agent ${version ?? '?'}`, ...machine].join(', ')
}

/** Waits until a new agent is online, or its token has expired. Ctrl-C undoes nothing. */
async function waitForAgent(
  context: Context,
  api: Api,
  server: Server,
  expiresAt: string,
): Promise<ExitCode> {
  const deadline = Date.parse(expiresAt)
  const { screen, io } = context
  const block = screen.live ? new LiveBlock(io.stderr) : undefined
  const note = '(Ctrl-C is fine: berth server list shows it)'
  block?.start((frame) => [`${spinnerFrame(frame)} Waiting for the agent…            ${note}`])
  try {
    for (let failures = 0; io.now() < deadline; ) {
      try {
        const read = await api.getIfChanged(`/api/servers/${server.id}`, Server, null, {
          retries: 0,
        })
        const value = read?.value
        failures = 0
        if (value?.status === 'online' && value.joined_at !== server.joined_at) {
          await block?.stop()
          await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(onlineText(value))}`)
          return EXIT.done
        }
      } catch (error) {
        const isPassing = error instanceof ApiFailure && (error.status ?? 500) >= 500
        if (!isPassing) throw error
        failures++
      }
      await io.sleep(pauseMs(pollInterval(io), 0, failures))
    }
  } catch (error) {
    if (io.interrupted.aborted) throw interrupted('stopped waiting', 'berth server list shows it')
    throw error
  } finally {
    await block?.stop()
  }
  throw new CliError(
    EXIT.error,
    `${server.name} has not joined, and its token has expired`,
    `a new one: berth server join-token ${server.name}`,
  )
}
