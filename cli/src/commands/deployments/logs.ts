// berth logs: what the services of an environment wrote, over certificate SSH, of any age. If SSH cannot reach the
// server, the control plane passes on what the server's agent reads.

import { createLineFilter, LOG_LEVEL_FILTERS, type LogLevelFilter } from '@berth/shared'
import {
  type LogsRequest,
  type LogsSource,
  readContainerLogs,
  readThroughControlPlane,
} from '../../client/container-logs.ts'
import { isGap, type LogEntry, type LogItem } from '../../client/log-records.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findTarget, type Target, targetName } from '../../client/resolve.ts'
import { whyUnreachable } from '../../client/ssh/run.ts'
import {
  type Context,
  compose,
  flagList,
  flagOn,
  flagText,
  type Invocation,
} from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, interrupted, usage } from '../../terminal/exit.ts'
import { parseCount, parseMoment } from '../../terminal/format.ts'
import type { Style } from '../../terminal/terminal.ts'
import { cleanLogLine, cleanText, padText, textWidth, toJson } from '../../terminal/text.ts'
import { flagsOf } from './deploy.ts'

interface LogsOptions {
  services: string[]
  follow: boolean
  tail: number | null
  /** As typed; relative times count from when the command runs. */
  since: string | undefined
  until: string | undefined
  grep: RegExp | undefined
  /** Empty: all of them. */
  levels: LogLevelFilter[]
  fullTimes: boolean
}

const SERVICE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/

function parsePattern(text: string | undefined): RegExp | undefined {
  if (text === undefined) return undefined
  try {
    return new RegExp(text, 'u')
  } catch {
    throw usage(`--grep is not a regular expression: '${text}'`)
  }
}

function parseLevels(words: readonly string[]): LogLevelFilter[] {
  const wrong = words.find((word) => !(LOG_LEVEL_FILTERS as readonly string[]).includes(word))
  if (wrong === undefined) return LOG_LEVEL_FILTERS.filter((level) => words.includes(level))
  throw usage(`--level takes ${LOG_LEVEL_FILTERS.join(', ')}, got '${wrong}'`)
}

export function parseServices(words: readonly string[]): string[] {
  const services = [...new Set(words)]
  const wrong = services.find((word) => !SERVICE.test(word))
  if (wrong !== undefined) {
    throw usage(`-s takes the name of a service, got '${wrong}'`, 'berth env show lists them')
  }
  return services
}

function parseLogs({ flags }: Invocation): LogsOptions {
  const services = parseServices(flagList(flags, 'service'))
  if (services.length > CLIENT.logServices) {
    throw usage(`-s at most ${CLIENT.logServices} times; without it all services are shown`)
  }
  const follow = flagOn(flags, 'follow')
  const [since, until] = ['since', 'until'].map((name) => flagText(flags, name))
  const lines = flagText(flags, 'lines') ?? flagText(flags, 'tail')
  if (follow && until !== undefined) throw usage('--until goes without -f')
  // with a start time, everything from there on, unless a number of lines was given
  const tail = lines ?? (since === undefined ? '100' : undefined)
  const options = {
    services,
    follow,
    tail: tail === undefined ? null : parseCount('-n', tail, 1_000_000),
    since,
    until,
    grep: parsePattern(flagText(flags, 'grep')),
    levels: parseLevels(flagList(flags, 'level')),
    fullTimes: flagOn(flags, 'timestamps'),
  }
  requestOf(options, Date.now()) // reports a wrong time before anything else happens
  return options
}

function requestOf(options: LogsOptions, now: number): LogsRequest {
  const moment = (flag: string, text: string | undefined) =>
    text === undefined ? null : parseMoment(flag, text, now, CLIENT.logLookBackMs)
  const since = moment('--since', options.since)
  const until = moment('--until', options.until)
  if (since !== null && until !== null && since >= until) {
    throw usage('--until must be later than --since')
  }
  const { services, tail, follow } = options
  return { services, tail, since, until, follow }
}

const COLOURS: readonly Style[] = ['cyan', 'green', 'yellow', 'bold']

/** '2026-11-14T07:31:02Z web  GET /cart 200 12ms'; the name column is as wide as the longest name so far. */
function lineWriter(context: Context, target: Target, fullTimes: boolean) {
  const { paint, colour } = context.screen.out
  const known = target.environment.services.map(({ name }) => name)
  let width = 0
  const styles = new Map<string, Style | undefined>()
  return (entry: LogEntry): string => {
    const name = cleanText(entry.service)
    if (!styles.has(name)) {
      width = Math.max(width, textWidth(name), ...known.map(textWidth))
      styles.set(name, COLOURS[styles.size % COLOURS.length])
    }
    const time = fullTimes ? cleanText(entry.t) : entry.t.replace(/\.\d+/, '')
    const label = context.screen.human ? padText(name, width) : name
    const text = cleanLogLine(entry.text.replace(/\r?\n$/, ''), colour)
    return `${paint('dim', time)} ${paint(styles.get(name), label)}  ${text}\n`
  }
}

/** There were no lines, so it points to the other log. */
async function reportNothing(context: Context, target: Target): Promise<void> {
  const { last_task: last } = target.environment
  const flags = cleanText(flagsOf(target))
  const other =
    last === null
      ? `it was never deployed: berth deploy ${flags}`
      : last.status === 'failed'
        ? `the last deployment failed: berth tasks log ${flags} --failed`
        : `the deployment's own log: berth tasks log ${flags}`
  const what = last?.status === 'failed' || last === null ? 'no service runs yet' : 'no log lines'
  await context.screen.note(`${what} in ${cleanText(targetName(target))}; ${other}`)
}

/** Before a connection is made, which would only find nothing. */
export function requireServices(target: Target, words: readonly string[]): void {
  const known = target.environment.services.map(({ name }) => name)
  const unknown = words.find((word) => !known.includes(word))
  // before the first deployment the names are not known
  if (unknown === undefined || known.length === 0) return
  throw new CliError(
    EXIT.notFound,
    `no service '${unknown}' in ${targetName(target)}`,
    `services: ${known.join(', ')}`,
  )
}

/** Neither way worked: names both, and what can be read without the server. */
function namingBoth(error: unknown, first: string, target: Target): unknown {
  if (!(error instanceof ApiFailure) || error.kind !== 'refused') return error
  const message = `${error.message} (over SSH: ${first})`
  return new ApiFailure(error.kind, error.exitCode, message, {
    hint: `deployment logs are still there: berth tasks log ${flagsOf(target)}`,
    status: error.status ?? 503,
    code: error.code ?? '',
  })
}

/** SSH first. If no record came and SSH cannot reach the server, everything comes through the control plane. */
async function* readEither(
  source: LogsSource,
  request: LogsRequest,
  context: Context,
  target: Target,
): AsyncGenerator<LogItem> {
  let lost: string | undefined
  try {
    return yield* readContainerLogs(source, request)
  } catch (error) {
    lost = whyUnreachable(error)
    if (lost === undefined || context.io.interrupted.aborted) throw error
  }
  const { baseUrl } = source.api
  await context.screen.note(cleanText(`No SSH to the server (${lost}); reading through ${baseUrl}`))
  try {
    yield* readThroughControlPlane(source, request)
  } catch (error) {
    throw namingBoth(error, lost, target)
  }
}

async function performLogs(options: LogsOptions, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const request = requestOf(options, io.now())
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  requireServices(target, options.services)
  const { environment } = target
  const place = { server: environment.server, environmentId: environment.id }
  const onLost = (reason: string) => screen.note(`${cleanText(reason)}; trying again`)
  const format = lineWriter(context, target, options.fullTimes)
  const isWanted = createLineFilter({ levels: options.levels }) ?? (() => true)
  const isFound = (text: string) => !options.grep || options.grep.test(cleanLogLine(text, false))
  let count = 0
  try {
    for await (const item of readEither({ api, io, place, onLost }, request, context, target)) {
      count++
      if (isGap(item)) {
        if (screen.json) await io.stdout.write(`${toJson(item)}\n`)
        await screen.warn(`${item.service}: its logs of ${item.days} are gone`)
      } else if (isFound(item.text) && isWanted(item.text)) {
        await io.stdout.write(screen.json ? `${toJson(item)}\n` : format(item))
      }
      if (io.stdout.closed) return EXIT.done
    }
  } catch (error) {
    if (io.interrupted.aborted) throw interrupted('stopped reading', 'the services keep running')
    throw error
  }
  if (count === 0) await reportNothing(context, target)
  return EXIT.done
}

export const logs = compose(parseLogs, performLogs)
