// berth ssh list, berth ssh revoke: certificates that are live and the sessions that they hold; ends them.
import { IssuedSshCertificate, LiveSshAccess } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { type Context, compose, flagOn, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, formatUntil } from '../../terminal/format.ts'
import type { Cell } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'
import { confirmYes } from '../prompt.ts'

const listLive = (api: Api, everyone: boolean) =>
  api.list('/api/ssh/sessions', LiveSshAccess, {
    query: everyone ? { everyone: 'true' } : {},
  })

/** 'open: shell since 4 min ago' or when the certificate ends. */
function stateOf({ sessions, status, valid_before: until }: LiveSshAccess, now: number): Cell {
  const [first, ...more] = sessions
  if (!first) return { text: `unused, ${formatUntil(until, now)}`, style: 'dim' }
  const others = more.length > 0 ? ` and ${more.length} more` : ''
  const ending = status === 'revoked' ? ', being ended' : ''
  return { text: `open, began ${formatAgo(first.started_at, now)}${others}${ending}` }
}

async function performList({ all }: { all: boolean }, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { items, raw } = await listLive(api, all)
  await screen.printList({
    rows: items,
    raw,
    header: ['SERIAL', 'WHO', 'SERVER', 'ENVIRONMENT', 'DOES', 'STATE'],
    human: (one) => [
      { text: one.serial, style: 'bold' },
      one.holder.name,
      one.server.name,
      one.environment ?? '(whole server)',
      one.sessions[0]?.verb ?? one.purpose,
      stateOf(one, io.now()),
    ],
    plain: (one) => [
      one.serial,
      one.holder.name,
      one.server.name,
      one.environment ?? '',
      one.purpose,
      one.status,
      one.valid_before,
      String(one.sessions.length),
      one.sessions.map(({ verb }) => verb).join(', '),
    ],
    empty: all
      ? 'No live SSH access.'
      : 'You have no live SSH access. Of everyone: berth ssh list --all',
  })
  return EXIT.done
}

export const sshList = compose(
  ({ flags }: Invocation) => ({ all: flagOn(flags, 'all') }),
  performList,
)

interface RevokeOptions {
  serial: string | undefined
  mine: boolean
}

function parseRevoke({ args, flags }: Invocation): RevokeOptions {
  const [serial] = args
  const mine = flagOn(flags, 'mine')
  if ((serial === undefined) === !mine) {
    throw usage('name one serial, or --mine for all of yours', 'berth ssh list shows them')
  }
  if (serial !== undefined && !/^[1-9]\d{0,18}$/.test(serial)) {
    throw usage(`'${serial}' is no serial of a certificate`, 'berth ssh list shows them')
  }
  return { serial, mine }
}

/** One's own first; another user's only if it is not there. */
async function findLive(api: Api, serial: string): Promise<LiveSshAccess> {
  const own = (await listLive(api, false)).items.find((one) => one.serial === serial)
  if (own) return own
  const all = await listLive(api, true).catch((error: unknown) => {
    if (error instanceof CliError && [EXIT.refused, EXIT.notLoggedIn].includes(error.exitCode as 4))
      return { items: [] }
    throw error
  })
  const found = all.items.find((one) => one.serial === serial)
  if (found) return found
  throw new CliError(EXIT.notFound, `no live certificate ${serial}`, 'berth ssh list shows them')
}

async function performRevoke(options: RevokeOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const found =
    options.serial === undefined
      ? (await listLive(api, false)).items
      : [await findLive(api, options.serial)]
  if (options.mine && found.length > 0) {
    await confirmYes(context, `End all your SSH access (${found.length})?`)
  }
  const raws: unknown[] = []
  for (const one of found) {
    const path = `/api/servers/${one.server.id}/ssh/${one.serial}`
    const { raw } = await api.change('DELETE', path, IssuedSshCertificate, { expect: 202 })
    raws.push(raw)
    const what = `${one.serial} of ${one.holder.name} on ${one.server.name}`
    const mark = screen.err.paint('green', '✓')
    await screen.note(`${mark} ${cleanText(`Revoked ${what}; its sessions end within seconds`)}`)
    if (!screen.json && !screen.human) await screen.print(one.serial)
  }
  if (found.length === 0) await screen.note('Nothing to revoke.')
  if (screen.json) await screen.printJson(options.mine ? raws : raws[0])
  return EXIT.done
}

export const sshRevoke = compose(parseRevoke, performRevoke)
