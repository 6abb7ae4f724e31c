// berth forward: local ports that lead to ports of an environment's services, through its server's sshd. Listens on the
// loopback of this machine only.
import { createServer, type Server } from 'node:net'
import { CHANNELS } from '@berth/shared/ssh'
import { findTarget, targetName } from '../../client/resolve.ts'
import { Forwarding, type ForwardTarget } from '../../client/ssh/forward.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, usage } from '../../terminal/exit.ts'
import { cleanText, toJson } from '../../terminal/text.ts'
import { parseServices } from '../deployments/logs.ts'

interface Forward extends ForwardTarget {
  /** 0: any free one. */
  local: number
}

const PORT = /^\d{1,5}$/
const FORM = '[LOCAL:][SERVICE:]PORT, for example 5432, 15432:5432 or 15432:db:5432'

function parsePort(text: string, least: number, word: string): number {
  const port = Number(text)
  if (PORT.test(text) && port >= least && port <= 65_535) return port
  throw usage(`'${word}': a port is a number from ${least} to 65535, got '${text}'`, FORM)
}

function parseForward(word: string, service: string | undefined): Forward {
  const parts = word.split(':')
  const remote = parts.pop() ?? ''
  const port = parsePort(remote, 1, word)
  const last = parts.at(-1)
  const isNamed = last !== undefined && !PORT.test(last)
  const named = isNamed ? parts.pop() : undefined
  const local = parts.pop()
  if (parts.length > 0) throw usage(`'${word}' has too many parts`, FORM)
  if (named !== undefined) parseServices([named])
  return {
    local: local === undefined ? port : parsePort(local, 0, word),
    service: named ?? service,
    port,
  }
}

function parse({ args, flags }: Invocation): Forward[] {
  const service = flagText(flags, 'service')
  if (service !== undefined) parseServices([service])
  if (args.length > CHANNELS.targets) {
    throw usage(`at most ${CHANNELS.targets} ports at once, got ${args.length}`)
  }
  const asked = args.map((word) => parseForward(word, service))
  const taken = asked.find(
    ({ local }, n) => local > 0 && asked.findIndex((o) => o.local === local) < n,
  )
  if (taken) throw usage(`local port ${taken.local} is named twice`, FORM)
  return asked
}

function listen(asked: Forward, server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', ({ code }: NodeJS.ErrnoException) => {
      const free = `berth forward 0:${asked.port} takes any free port`
      const reason = code === 'EADDRINUSE' ? 'is in use here' : `cannot be used here (${code})`
      reject(new CliError(EXIT.error, `port ${asked.local} ${reason}`, free))
    })
    server.listen({ host: '127.0.0.1', port: asked.local }, () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : asked.local)
    })
  })
}

async function perform(asked: Forward[], context: Context): Promise<number> {
  const { io, screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const { environment } = target
  const place = { server: environment.server, environmentId: environment.id }
  const onTrouble = (message: string): void => void screen.warn(cleanText(message))
  const forwarding = new Forwarding({ api, io, place, onTrouble }, asked)
  const servers: Server[] = []
  try {
    await forwarding.open()
    for (const [index, one] of asked.entries()) {
      const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
        forwarding.accept(index, socket),
      )
      servers.push(server)
      const local = await listen(one, server)
      const from = `127.0.0.1:${local}`
      const to = `${one.service ?? ''}:${one.port}`
      const name = `${targetName(target)} on ${environment.server.name}`
      if (screen.json) {
        const document = { local, service: one.service ?? null, port: one.port }
        await io.stdout.write(`${toJson(document)}\n`) // several ports are several lines
      } else if (!screen.human) {
        await screen.print([from, one.service ?? '-', String(one.port)].join('\t'))
      }
      await screen.note(cleanText(`Forwarding ${from} → ${to} of ${name} (Ctrl-C ends it)`))
    }
    return await forwarding.run()
  } finally {
    for (const server of servers) server.close()
    await forwarding.close()
  }
}

export const forward = compose(parse, perform)
