// `forward`: TCP connections to ports of the services of one environment. Invariant: the address comes from the engine
// or from the ledger, never from the request. A docker service is its own container, at any port; a manual service is
// the port that Berth gave it, and only while the environment's own account listens there. No other address of the
// server or of the network can be reached.
import { connect, type Socket } from 'node:net'
import { Channels } from '@berth/shared/ssh'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { inspectContainer } from '../../machine/docker/containers.ts'
import { openEngine } from '../../machine/docker/engine.ts'
import { findListeners } from '../../machine/process/ports.ts'
import {
  type DockerPlan,
  isDockerPlan,
  isManualPlan,
  type ManualPlan,
} from '../../runner/plan/plan.ts'
import { readPlan } from '../../service-logs/known-secrets.ts'
import type { AgentSettings } from '../../settings.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { Ending } from '../sessions/frames.ts'
import type { Output } from '../sessions/output.ts'
import { type ForwardTarget, NOT_AVAILABLE, Refusal, type Verb } from './commands.ts'
import { findServing } from './docker.ts'
import { accountOf } from './manual.ts'
import type { Work } from './work.ts'

interface Address {
  host: string
  port: number
  service: string
  /** Throws if the address is not the service's any more. */
  check(): void
}

async function findContainer(
  settings: AgentSettings,
  plan: DockerPlan,
  { service: asked, port }: ForwardTarget,
): Promise<Address> {
  const engine = openEngine(settings)
  const { containerId, service } = await findServing(engine, plan, asked)
  const host = (await inspectContainer(engine, containerId))?.address
  if (!host) throw new Refusal(`${service} has no address now. Try again.`, NOT_AVAILABLE)
  return { host, port, service, check: () => undefined }
}

async function findPort(
  settings: AgentSettings,
  context: SessionContext,
  plan: ManualPlan,
  { service: asked, port }: ForwardTarget,
): Promise<Address> {
  const ports = Object.entries(plan.ports)
  const shown = ports.map(([name, own]) => `${name}:${own}`).join(', ')
  const found = asked === null && ports.length === 1 ? ports[0] : ports.find(([n]) => n === asked)
  if (!found) {
    const what = asked === null ? 'Name one of its services.' : `${asked} has no port.`
    const others = shown === '' ? 'None of its services has one.' : `These have: ${shown}.`
    throw new Refusal(`${what} ${others}`, NOT_AVAILABLE)
  }
  const [service, own] = found
  if (own !== port) throw new Refusal(`The port of ${service} is ${own}.`, NOT_AVAILABLE)
  const account = await accountOf(settings, context)
  const check = (): void => {
    const listeners = findListeners(port)
    const isOwn = listeners.every(({ uid }) => account === undefined || uid === account.uid)
    if (listeners.length > 0 && isOwn) return
    throw new Refusal(`${service} does not listen on port ${port}.`, NOT_AVAILABLE)
  }
  return { host: '127.0.0.1', port, service, check }
}

function findAddress(
  settings: AgentSettings,
  context: SessionContext,
  target: ForwardTarget,
): Promise<Address> {
  const plan = readPlan(settings, context.environmentId)
  if (isDockerPlan(plan)) return findContainer(settings, plan, target)
  if (isManualPlan(plan)) return findPort(settings, context, plan, target)
  throw new Refusal('Nothing of this environment runs here. Deploy it first.', NOT_AVAILABLE)
}

/** Checks the owner of the port before and after, because another account may take it in between. */
async function dial({ host, port, service, check }: Address): Promise<Socket> {
  check()
  const socket = connect({ host, port, allowHalfOpen: true })
  try {
    await new Promise<void>((resolve, reject) => {
      socket.setTimeout(SSH_SESSIONS.dialMs, () => reject(new Error('it did not answer in time')))
      socket.once('connect', resolve)
      socket.once('error', ({ code }: NodeJS.ErrnoException) =>
        reject(
          new Error(code === 'ECONNREFUSED' ? 'nothing listens there' : (code ?? 'it failed')),
        ),
      )
    })
    socket.setTimeout(0)
    check()
    return socket
  } catch (error) {
    socket.destroy()
    if (error instanceof Refusal) throw error
    throw new Error(`${service}:${port} cannot be reached: ${(error as Error).message}.`)
  }
}

/** Refuses at once if a target is not a service of this environment. */
export async function startForward(
  settings: AgentSettings,
  context: SessionContext,
  { targets }: Extract<Verb, { verb: 'forward' }>,
  output: Output,
): Promise<Work> {
  for (const target of targets) await findAddress(settings, context, target)
  const over = Promise.withResolvers<Ending>()
  const channels = new Channels({
    // the windows of the channels bound what waits here
    send: (frame) => void output.write('data', frame),
    async connect(index) {
      const target = targets[index]
      if (!target) throw new Refusal('The session has no such target.')
      return dial(await findAddress(settings, context, target))
    },
  })
  await output.write('errors', Buffer.from('ready\n'))
  return {
    input(chunk) {
      try {
        channels.receive(chunk)
      } catch (error) {
        over.resolve({ code: 77, message: `The session was ended: ${(error as Error).message}.` })
      }
      return true
    },
    whenReady: (go) => go(),
    endInput: () => false,
    resize: () => undefined,
    done: over.promise.finally(() => channels.destroy()),
    async end() {
      channels.destroy()
    },
  }
}
