// berth project check: the doctor. Checks everything a project needs, from here and through the server, and gives a
// remedy for each failed check. Exit 0 when all pass, 6 otherwise.
import { randomUUID } from 'node:crypto'
import { lookup } from 'node:dns/promises'
import { connect, isIP } from 'node:net'
import {
  Delivery,
  ProjectDetail,
  ProjectForge,
  PullRequest,
  RefusedDelivery,
  RepositoryCheck,
  Server,
} from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { findProject } from '../../client/resolve.ts'
import { type Context, compose, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import {
  type Check,
  checkAddress,
  checkAgent,
  checkDiskSpace,
  checkForge,
  checkLimit,
  checkRecipe,
  checkRepository,
  checkServiceFile,
  checkSshPort,
  checkWebhook,
  sshPortOf,
  unlooked,
} from './doctor.ts'

/** Addresses of a hostname, as this machine resolves it. */
async function addressesOf(host: string): Promise<string[]> {
  if (isIP(host)) return [host]
  const limit = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error('no answer in time')), CLIENT.portProbeMs).unref()
  })
  const found = await Promise.race([lookup(host, { all: true }), limit]).catch(() => [])
  return found.map(({ address }) => address)
}

/** null: the port answers. */
function probePort(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CLIENT.portProbeMs })
    const end = (result: string | null) => {
      socket.destroy()
      resolve(result)
    }
    socket.once('connect', () => end(null))
    socket.once('timeout', () => end('timeout'))
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message))
  })
}

/** One check; its failure is a result too, unless the user interrupted it. */
async function look(name: string, work: () => Promise<Check | Check[]>): Promise<Check[]> {
  try {
    return [await work()].flat()
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode === EXIT.interrupted) throw error
    return [unlooked(name, error.message)]
  }
}

async function lookAtRepository(api: Api, project: ProjectDetail): Promise<RepositoryCheck> {
  const path = `/api/projects/${project.id}/repository_check`
  const options = { idempotencyKey: randomUUID(), expect: 200 }
  return (await api.post(path, RepositoryCheck, options)).value
}

/** Compares what both looks found; a server that cannot be read is reported by its own check. */
async function lookAtRecipe(
  api: Api,
  project: ProjectDetail,
  repository: Promise<RepositoryCheck>,
): Promise<Check> {
  const found = await repository.catch(() => null)
  const servers = await Promise.all(
    project.servers.map(({ id }) => api.get(`/api/servers/${id}`, Server).catch(() => null)),
  )
  const known = servers.flatMap((one) => (one ? [one.value] : []))
  return checkRecipe(found, project, known)
}

async function lookAtWebhook(api: Api, project: ProjectDetail, now: number): Promise<Check> {
  const one = { query: { per_page: 1 }, limit: 1 }
  const path = `/api/projects/${project.id}`
  const [deliveries, refused] = await Promise.all([
    api.list(`${path}/deliveries`, Delivery, one),
    api.list(`${path}/refused_deliveries`, RefusedDelivery, one),
  ])
  return checkWebhook(project, deliveries.items[0], refused.items[0], now)
}

/** Asks the forge itself; without a connection the deliveries alone say something. */
async function lookAtForge(api: Api, project: ProjectDetail, now: number): Promise<Check[]> {
  if (!project.forge.connected) return [await lookAtWebhook(api, project, now)]
  const path = `/api/projects/${project.id}/forge`
  const asked = { idempotencyKey: randomUUID(), expect: 200 }
  const { value } = await api.post(`${path}/check`, ProjectForge, asked).catch((error: unknown) => {
    // who may only read sees what the last check found
    if (!(error instanceof ApiFailure) || error.status !== 403) throw error
    return api.get(path, ProjectForge)
  })
  return checkForge(project, value)
}

async function lookAtAddress(project: ProjectDetail): Promise<Check> {
  const servers = await Promise.all(
    project.servers.map(async ({ name, hostname }) => ({
      name,
      addresses: await addressesOf(hostname),
    })),
  )
  const found = await addressesOf(`berth-check.${project.domain}`)
  return checkAddress(project.domain, servers, found)
}

async function lookAtServer(api: Api, id: number, now: number): Promise<Check[]> {
  const { value: server } = await api.get(`/api/servers/${id}`, Server)
  const isOff = server.ssh?.state === 'off'
  const port = isOff ? null : await probePort(server.hostname, sshPortOf(server))
  return [checkAgent(server, now), checkSshPort(server, port), checkDiskSpace(server)]
}

async function lookAtLimit(api: Api, project: ProjectDetail): Promise<Check> {
  const path = `/api/projects/${project.id}/pull_requests`
  const { items } = await api.list(path, PullRequest, { query: { per_page: 100 } })
  return checkLimit(project, items)
}

async function performProjectCheck(
  options: { project: string | undefined },
  context: Context,
): Promise<ExitCode> {
  const { io } = context
  const api = await context.connect()
  const globals = { ...context.globals, project: options.project }
  const { id } = await findProject(api, { ...context, globals }, 'read')
  const { value: project } = await api.get(`/api/projects/${id}`, ProjectDetail)
  const now = io.now()
  const repository = lookAtRepository(api, project)
  const looks = await Promise.all([
    ...project.servers.map((server) =>
      look(`server ${server.name}`, () => lookAtServer(api, server.id, now)),
    ),
    look('repository', async () => {
      const found = await repository
      return [checkRepository(found, project), checkServiceFile(found)]
    }),
    look('recipe', () => lookAtRecipe(api, project, repository)),
    look('DNS', () => lookAtAddress(project)),
    look('forge', () => lookAtForge(api, project, now)),
    look('environments', () => lookAtLimit(api, project)),
  ])
  const checks = looks.flat()
  const ok = checks.every((check) => check.ok)
  await printChecks(context, project, checks, ok)
  return ok ? EXIT.done : EXIT.refused
}

async function printChecks(
  { screen }: Context,
  project: ProjectDetail,
  checks: readonly Check[],
  ok: boolean,
): Promise<void> {
  if (screen.json) return screen.printJson({ project: project.name, ok, checks })
  for (const check of checks) {
    const { name, text, remedy } = check
    if (!screen.human) {
      const cells = [check.ok ? 'ok' : 'failed', name, text, remedy ?? '-']
      await screen.print(cells.map(cleanText).join('\t'))
      continue
    }
    const mark = check.ok ? screen.out.paint('green', '✓') : screen.out.paint('red', '✗')
    await screen.print(`${mark} ${cleanText(`${name}: ${text}`)}`)
    if (remedy !== null) await screen.print(`    ${cleanText(remedy)}`)
  }
  const wrong = checks.filter((check) => !check.ok).length
  const summary = ok ? 'Everything is in place.' : `${wrong} of ${checks.length} do not hold.`
  await screen.note(cleanText(`${project.name}: ${summary}`))
}

export const projectCheck = compose(
  ({ args, globals }: Invocation) => ({ project: args[0] ?? globals.project }),
  performProjectCheck,
)
