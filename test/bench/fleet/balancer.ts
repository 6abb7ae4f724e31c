// A TCP balancer in a process of its own: passes bytes to the control planes in turn, and asks the next one if one does
// not take the connection. Its parent names the targets; connections of one that died end with it.
import { connect, createServer, type Server, type Socket } from 'node:net'

export interface Target {
  http: number
  agents: number
}

const HOST = '127.0.0.1'
let targets: Target[] = []
let turn = 0

function pass(client: Socket, kind: keyof Target, tries: number): void {
  const target = targets[turn++ % Math.max(1, targets.length)]
  if (!target || tries === 0) {
    client.destroy()
    return
  }
  const upstream = connect(target[kind], HOST)
  let isOpen = false
  upstream.on('connect', () => {
    isOpen = true
    client.pipe(upstream)
    upstream.pipe(client)
  })
  upstream.on('error', () => {
    if (!isOpen && !client.destroyed) pass(client, kind, tries - 1)
  })
  upstream.on('close', () => {
    if (isOpen) client.destroy()
  })
  client.once('close', () => upstream.destroy())
}

function open(kind: keyof Target): Promise<number> {
  const server: Server = createServer({ noDelay: true }, (client) => {
    client.on('error', () => {})
    pass(client, kind, targets.length)
  })
  return new Promise((resolve) => {
    server.listen({ host: HOST, port: 0, backlog: 4_096 }, () =>
      resolve((server.address() as { port: number }).port),
    )
  })
}

process.on('message', (named: Target[]) => {
  targets = named
})
process.on('disconnect', () => process.exit(0))
process.send?.({ http: await open('http'), agents: await open('agents') } satisfies Target)
