// berth server pause, resume: a paused server starts no new tasks; what runs goes on, and queued tasks wait.
import { randomUUID } from 'node:crypto'
import { Server } from '@berth/shared/api'
import { type Context, compose, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { findServer } from './servers.ts'

async function perform(name: string, paused: boolean, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const before = await findServer(api, name, 'change')
  const { value, raw } = await api.change('PATCH', `/api/servers/${before.id}`, Server, {
    body: { paused },
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const word = paused ? 'paused' : 'in service'
  const next = paused
    ? `What runs goes on; new tasks wait until: berth server resume ${value.name}`
    : 'Tasks that waited for it start now'
  const already = before.paused === paused ? ' already' : ''
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} ${cleanText(`${value.name} is ${word}${already}. ${next}`)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${value.id}\t${cleanText(value.name)}\t${word}`)
  return EXIT.done
}

const parseName = ({ args }: Invocation): { name: string } => ({ name: args[0] ?? '' })

export const serverPause = compose(parseName, ({ name }, context) => perform(name, true, context))
export const serverResume = compose(parseName, ({ name }, context) => perform(name, false, context))
