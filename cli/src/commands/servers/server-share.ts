// berth server share and unshare: another organization may place environments on a server, or may not any more.
import { randomUUID } from 'node:crypto'
import { Server } from '@berth/shared/api'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { findServer } from './servers.ts'

interface ShareOptions {
  name: string
  /** Slug or id. */
  organization: string
}

const parse = ({ args, flags }: Invocation): ShareOptions => ({
  name: args[0] ?? '',
  organization: flagText(flags, 'with') ?? '',
})

async function performShare(options: ShareOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { id } = await findServer(api, options.name, 'change')
  const { value, raw } = await api.post(`/api/servers/${id}/shares`, Server, {
    body: { organization: options.organization },
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const names = value.shared_with.map(({ slug }) => slug).join(', ')
  const done = `${cleanText(value.name)} is shared with ${cleanText(names)}`
  await screen.note(`${screen.err.paint('green', '✓')} ${done}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const serverShare = compose(parse, performShare)

async function performUnshare(options: ShareOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const server = await findServer(api, options.name, 'change')
  const { organization } = options
  const holder = server.shared_with.find(
    ({ id, slug }) => slug === organization || String(id) === organization,
  )
  if (!holder) {
    const names = server.shared_with.map(({ slug }) => slug).join(', ')
    const hint = names ? `it is shared with: ${cleanText(names)}` : 'it is shared with nobody'
    throw usage(`${cleanText(server.name)} is not shared with ${organization}`, hint)
  }
  const path = `/api/servers/${server.id}/shares/${holder.id}`
  const { raw } = await api.change('DELETE', path, Server, { expect: 200 })
  const done = `${cleanText(server.name)} is not shared with ${cleanText(holder.slug)} any more`
  await screen.note(`${screen.err.paint('green', '✓')} ${done}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const serverUnshare = compose(parse, performUnshare)
