// `shell` and `exec` of an environment with the manual recipe: under its own account, in the active release, with the
// values of the running version and the bounds and folders of a step. Also the shell of the whole server. Values are
// arguments of a fixed script.
import { spawn } from 'node:child_process'
import { closeSync, constants, existsSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { ReadStream } from 'node:tty'
import { PROCESSES } from '../../limits/machine.ts'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { Masker } from '../../machine/masking/mask.ts'
import { Cgroup, detectCgroups } from '../../machine/process/cgroups.ts'
import { loadPty } from '../../machine/process/commands.ts'
import {
  type Account,
  baseEnvironment,
  dropRights,
  joinGroups,
  ownPaths,
  toolPath,
} from '../../machine/process/confinement.ts'
import {
  endTree,
  listTree,
  type ProcessTree,
  signalMembers,
} from '../../machine/process/process-tree.ts'
import { locateProgram, SYSTEM_PATH } from '../../machine/process/programs.ts'
import { readServerSettings } from '../../machine/server-settings.ts'
import { sharedPaths } from '../../machine/users/shared-paths.ts'
import { findAccount, isRoot } from '../../machine/users/users.ts'
import { type ManualPlan, releaseIdOf } from '../../runner/plan/plan.ts'
import type { AgentSettings } from '../../settings.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { Ending } from '../sessions/frames.ts'
import { type MaskedOutput, maskedOutput } from '../sessions/masked-output.ts'
import type { Output } from '../sessions/output.ts'
import { type Job, SESSION_MARKER } from '../sessions/session-start.ts'
import { ensureHostAccount } from '../sshd/accounts.ts'
import { NOT_AVAILABLE, Refusal, type Verb } from './commands.ts'
import type { Work } from './work.ts'

/** Runs as the account already: the values, the folder, then the rest. */
const ENTER =
  'umask 0027; set -a; . "$1" || exit 126; set +a; cd -- "$2" || exit 126; unset OLDPWD; shift 2; exec "$@"'
const SHELL = ['/bin/sh', '-c', 'command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i']

interface ManualAsk {
  job: Job
  verb: Extract<Verb, { verb: 'shell' | 'exec' }>
  context: SessionContext
  plan: ManualPlan
}

/** The environment's own account; undefined without accounts (development). */
export async function accountOf(
  settings: AgentSettings,
  context: Pick<SessionContext, 'environmentId' | 'paths'>,
): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  const name = `${settings.accountPrefix}${context.environmentId}`
  const found = await findAccount(name)
  if (found && found.home === context.paths.dir && found.uid > 0) return found
  throw new Refusal(`Account ${name} is gone. Deploy the environment again.`, NOT_AVAILABLE)
}

/** One per session, so that ending it ends every process inside. Undefined when this machine has no cgroups. */
function groupOf(settings: AgentSettings, { job, context, plan }: ManualAsk): Cgroup | undefined {
  const name = `${settings.accountPrefix}${context.environmentId}-ssh-${job.id}`
  const { buildMemoryBytes: memoryBytes, buildCpus: cpus } = readServerSettings(settings)
  const { pids } = PROCESSES
  return Cgroup.create(detectCgroups(), name, plan.bounds ?? { memoryBytes, cpus, pids })
}

export async function startManual(
  settings: AgentSettings,
  ask: ManualAsk,
  output: MaskedOutput,
): Promise<Work> {
  const { job, verb, context, plan } = ask
  const { paths } = context
  const releaseDir = join(paths.releases, String(releaseIdOf(plan)))
  const variablesFile = join(paths.variables, `${plan.taskId}.sh`)
  const account = await accountOf(settings, context)
  // environments of earlier versions get the folder with their next deployment
  const isOwn = account && existsSync(paths.temporary)
  const own = { temporary: paths.temporary, instead: sharedPaths(settings) }
  const group = groupOf(settings, ask)
  const env = baseEnvironment({
    environmentDir: paths.dir,
    releaseDir,
    socketDir: paths.sockets,
    variablesFile,
    commit: plan.commit,
  })
  const tools = Object.entries(toolPath(env, plan.toolPaths ?? []))
  const argv = [
    ...joinGroups(group?.joinFiles() ?? []),
    ...ownPaths(isOwn ? own : undefined),
    ...dropRights(account),
    ...['/bin/sh', '-c', ENTER, 'berth-enter', variablesFile, releaseDir],
    ...tools.flatMap(([key, value]) => ['/usr/bin/env', `${key}=${value}`]),
    ...(verb.verb === 'shell' ? SHELL : verb.argv),
  ]
  const start: Start = {
    argv,
    env: { ...env, [SESSION_MARKER]: job.id },
    job,
    group,
    output,
  }
  return verb.verb === 'shell' ? startOnTerminal(start) : startOnPipes(start)
}

interface Start {
  argv: string[]
  env: Record<string, string>
  job: Job
  group: Cgroup | undefined
  output: MaskedOutput
}

/** Under an ordinary account, never root or a relay. */
export async function startServerShell(
  settings: AgentSettings,
  job: Job,
  output: Output,
): Promise<Work> {
  if (!isRoot()) throw new Refusal('The agent does not run as root here.', NOT_AVAILABLE)
  const name = await ensureHostAccount(settings)
  const runuser = locateProgram('runuser')
  if (!runuser) throw new Refusal('runuser is not installed.', NOT_AVAILABLE)
  const env = { PATH: SYSTEM_PATH, LANG: 'C.UTF-8', [SESSION_MARKER]: job.id }
  const masked = maskedOutput(new Masker([]), output)
  return startOnTerminal({
    argv: [runuser, '-l', name],
    env,
    job,
    group: undefined,
    output: masked,
  })
}

async function endWork(root: number, { job, group }: Start): Promise<void> {
  const marker = `${SESSION_MARKER}=${job.id}`
  const tree: ProcessTree = { root, marker, cgroup: group, spared: new Set() }
  await endTree(tree, SSH_SESSIONS.killMs / 2, () => signalMembers(listTree(tree), 'SIGHUP'))
  group?.remove()
}

const toEnding = (code: number | null, signal: number): Ending => ({
  code: code ?? 128 + signal,
})

async function startOnTerminal(start: Start): Promise<Work> {
  const { argv, env, job, output } = start
  const pty = await loadPty()
  if (!pty) throw new Refusal('This agent has no terminal (node-pty is missing).', NOT_AVAILABLE)
  const [file = '', ...args] = argv
  const { columns, rows } = job.terminal ?? { columns: 80, rows: 24 }
  const { promise: exited, resolve } = Promise.withResolvers<Ending>()
  const lines = Object.entries({ ...env, TERM: 'xterm-256color' }).map(([k, v]) => `${k}=${v}`)
  const onExit = (code: number, signal: number): void =>
    resolve(toEnding(signal > 0 ? null : code, signal))
  const terminal = pty.fork(file, args, lines, '/', columns, rows, -1, -1, true, '', onExit)
  // our own end stays open until everything was read, so that the hang-up of the last process cuts no output
  const inner = openSync(terminal.pty, constants.O_RDWR | constants.O_NOCTTY)
  const stream = new ReadStream(terminal.fd)
  stream.on('error', () => undefined)
  let writing = Promise.resolve()
  stream.on('data', (chunk: Buffer) => {
    stream.pause()
    writing = output.write('data', chunk).then(() => void stream.resume())
  })
  const done = exited.then(async (ending) => {
    closeSync(inner)
    await new Promise<void>((over) => {
      stream.once('close', over).once('end', over)
      setTimeout(over, SSH_SESSIONS.pollMs).unref()
    })
    await writing
    if (start.group) await endWork(terminal.pid, start)
    await output.end()
    stream.destroy()
    return ending
  })
  return {
    input(chunk) {
      writeAll(terminal.fd, chunk)
      return true
    },
    whenReady: (go) => go(),
    endInput: () => false,
    resize: (size) => pty.resize(terminal.fd, size.columns, size.rows),
    done,
    end: () => endWork(terminal.pid, start),
  }
}

/** People type slowly; input that the terminal does not accept is dropped, as terminals do. */
function writeAll(fd: number, chunk: Buffer): void {
  for (let at = 0, tries = 0; at < chunk.length && tries < 100; tries += 1) {
    try {
      at += writeSync(fd, chunk, at)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
    }
  }
}

async function startOnPipes(start: Start): Promise<Work> {
  const { argv, env, output } = start
  const [file = '', ...args] = argv
  const child = spawn(file, args, {
    cwd: '/',
    env: { ...env, TERM: 'dumb' },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  const pass = async (kind: 'data' | 'errors', from: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of from) await output.write(kind, chunk)
  }
  const passed = Promise.all([pass('data', child.stdout), pass('errors', child.stderr)])
  child.stdin.on('error', () => undefined)
  const exited = new Promise<Ending>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(toEnding(code, signal ? 9 : 0)))
  })
  const done = exited.then(async (ending) => {
    // a background process may hold the pipes open; all output from before the exit has arrived
    const late = new Promise((resolve) => setTimeout(resolve, SSH_SESSIONS.pollMs).unref())
    await Promise.race([passed.catch(() => undefined), late])
    await endWork(child.pid ?? 0, start)
    await output.end()
    return ending
  })
  return {
    input: (chunk) => child.stdin.write(chunk),
    whenReady: (go) => child.stdin.once('drain', go),
    endInput() {
      child.stdin.end()
      return true
    },
    resize: () => undefined,
    done,
    end: () => endWork(child.pid ?? 0, start),
  }
}
