// `shell` and `exec` in the running container of a service. The variables come from the mounted file, as for the
// service itself; the container's limits and isolation apply to the command.
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { findRunning, hasShell } from '../../machine/docker/containers.ts'
import { type Engine, openEngine } from '../../machine/docker/engine.ts'
import { talkToExec } from '../../machine/docker/exec-session.ts'
import {
  endTree,
  listTree,
  type ProcessTree,
  signalMembers,
} from '../../machine/process/process-tree.ts'
import type { DockerPlan, RunningContainer } from '../../runner/plan/plan.ts'
import { LAUNCH } from '../../runner/plan/variable-files.ts'
import type { AgentSettings } from '../../settings.ts'
import type { MaskedOutput } from '../sessions/masked-output.ts'
import { type Job, SESSION_MARKER } from '../sessions/session-start.ts'
import { NOT_AVAILABLE, Refusal, type Verb } from './commands.ts'
import type { Work } from './work.ts'

/** Prefers bash if the image has it. */
const SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i']

interface DockerAsk {
  job: Job
  verb: Extract<Verb, { verb: 'shell' | 'exec' }>
  plan: DockerPlan
  /** Its command is a script. */
  needsShell?: boolean
}

/** The containers of the service, in the order of their replicas. Null: its only service. */
function chooseContainers({ services }: DockerPlan, asked: string | null): RunningContainer[] {
  const names = [...new Set(services.map(({ service }) => service))]
  if (asked === null) {
    if (names.length === 1) return services
    throw new Refusal(`Name one of its services: ${names.join(', ')}.`, NOT_AVAILABLE)
  }
  const found = services.filter(({ service }) => service === asked)
  if (found.length > 0) return found
  const message = `It has no service ${asked}. Its services: ${names.join(', ')}.`
  throw new Refusal(message, NOT_AVAILABLE)
}

/** The first of them that runs. */
export async function findServing(
  engine: Engine,
  plan: DockerPlan,
  asked: string | null,
): Promise<RunningContainer> {
  const replicas = chooseContainers(plan, asked)
  const running = await findRunning(engine, replicas)
  if (running) return running
  const name = replicas[0]?.service
  throw new Refusal(`${name} does not run. Deploy the environment again.`, NOT_AVAILABLE)
}

export async function startDocker(
  settings: AgentSettings,
  ask: DockerAsk,
  output: MaskedOutput,
): Promise<Work> {
  const { job, verb, plan } = ask
  const engine = openEngine(settings)
  const { containerId, service } = await findServing(engine, plan, verb.service)
  const canLaunch = await hasShell(engine, containerId)
  if ((verb.verb === 'shell' || ask.needsShell) && !canLaunch)
    throw new Refusal(`The image of ${service} has no shell.`, NOT_AVAILABLE)
  const argv = verb.verb === 'shell' ? SHELL : verb.argv
  const marker = `${SESSION_MARKER}=${job.id}`
  const terminal = verb.verb === 'shell' ? job.terminal : null
  const exec = await talkToExec(engine, containerId, {
    argv: canLaunch ? ['/bin/sh', LAUNCH, ...argv] : argv,
    env: [marker, ...(terminal ? ['TERM=xterm-256color'] : [])],
    terminal,
    onOutput: (stream, chunk) => output.write(stream === 'err' ? 'errors' : 'data', chunk),
  })
  const done = exec.exited.then(async (code) => {
    await output.end()
    if (code !== undefined) return { code }
    return { code: NOT_AVAILABLE, message: `${service} was stopped.` }
  })
  const { input } = exec
  return {
    input: (chunk) => input.write(chunk),
    whenReady: (go) => input.once('drain', go),
    endInput() {
      if (verb.verb !== 'exec') return false
      input.end() // the command sees the end of input; it ends by itself, or with the connection
      return true
    },
    resize: exec.resize,
    done,
    async end() {
      const root = await exec.pid().catch(() => undefined)
      if (root === undefined) return
      const tree: ProcessTree = { root, marker, cgroup: undefined, spared: new Set() }
      await endTree(tree, SSH_SESSIONS.killMs / 2, () => signalMembers(listTree(tree), 'SIGHUP'))
    },
  }
}
