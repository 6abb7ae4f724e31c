// berth artifacts: lists and downloads the files that an action left. A downloaded file is complete and has the digest
// that the server recorded when it was collected, or it is absent.
import { resolve } from 'node:path'
import { Artifact, Environment, Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { splitName } from '../../client/artifacts/file.ts'
import { removeParts } from '../../client/artifacts/parts.ts'
import { type ArtifactSource, type Fetched, fetchArtifacts } from '../../client/artifacts/source.ts'
import { openSshSource } from '../../client/artifacts/ssh.ts'
import { findTarget, targetName } from '../../client/resolve.ts'
import type { SshPlace } from '../../client/ssh/ssh.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, interrupted } from '../../terminal/exit.ts'
import { formatAgo, formatBytes, formatUntil } from '../../terminal/format.ts'
import { suggest } from '../../terminal/suggest.ts'
import { cleanText } from '../../terminal/text.ts'

/** Tasks that are searched for the last files of an environment. */
const TASKS_READ = 20

interface Found {
  taskId: number
  artifacts: Artifact[]
  raw: unknown[]
}

async function readArtifacts(api: Api, taskId: number): Promise<Found> {
  const { items, raw } = await api.list(`/api/tasks/${taskId}/artifacts`, Artifact)
  return { taskId, artifacts: items, raw }
}

/** Of the named task, or of the environment's newest action that left files. */
async function findArtifacts(
  api: Api,
  context: Context,
  taskId: number | undefined,
): Promise<Found> {
  if (taskId !== undefined) return readArtifacts(api, taskId)
  const target = await findTarget(api, context, 'read')
  const { items } = await api.list(`/api/environments/${target.environment.id}/tasks`, Task, {
    query: { type: 'action', status: ['succeeded'], per_page: TASKS_READ },
    limit: TASKS_READ,
  })
  for (const { id } of items) {
    const found = await readArtifacts(api, id)
    if (found.artifacts.length > 0) return found
  }
  const hint = 'files are declared under artifacts.paths of an action in .service.yml'
  throw new CliError(EXIT.notFound, `no action of ${targetName(target)} has left files`, hint)
}

const TASK = /^#?[1-9]\d{0,9}$/
const taskOf = (word: string | undefined): number | undefined =>
  word !== undefined && TASK.test(word) ? Number(word.replace('#', '')) : undefined

const parseArtifactsList = ({ args }: Invocation): { taskId: number | undefined } => {
  const taskId = taskOf(args[0])
  if (args[0] === undefined || taskId !== undefined) return { taskId }
  throw new CliError(EXIT.usage, `TASK is a number, got '${args[0]}'`, 'berth tasks lists them')
}

async function performArtifactsList(
  options: { taskId: number | undefined },
  context: Context,
): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const { artifacts, raw, taskId } = await findArtifacts(api, context, options.taskId)
  await screen.printList({
    rows: artifacts,
    raw,
    header: ['NAME', 'SIZE', 'COLLECTED', 'AVAILABLE'],
    human: (one) => [
      { text: one.path, style: 'bold' },
      formatBytes(one.size_bytes),
      formatAgo(one.collected_at, io.now()),
      formatUntil(one.expires_at, io.now()),
    ],
    plain: (one) => [
      one.path,
      String(one.size_bytes),
      one.sha256,
      one.collected_at,
      one.expires_at,
      one.url,
    ],
    empty: `Task ${taskId} left no files.`,
  })
  return EXIT.done
}

export const artifactsList = compose(parseArtifactsList, performArtifactsList)

interface DownloadOptions {
  taskId: number | undefined
  names: readonly string[]
  dir: string
  force: boolean
  /** Over SSH only. */
  direct: boolean
}

function parseArtifactsDownload({ args, flags }: Invocation): DownloadOptions {
  const taskId = taskOf(args[0])
  return {
    taskId,
    names: taskId === undefined ? args : args.slice(1),
    dir: flagText(flags, 'dir') ?? '.',
    force: flagOn(flags, 'force'),
    direct: flagOn(flags, 'direct'),
  }
}

/**
 * The server that holds the files of a task. The connection waits for this, so it reads no more answers than it needs.
 */
async function findPlace(api: Api, taskId: number): Promise<SshPlace> {
  const OfTask = Task.pick({ environment_id: true })
  const OfEnvironment = Environment.pick({ id: true, server: true })
  const { value: task } = await api.get(`/api/tasks/${taskId}`, OfTask)
  const path = `/api/environments/${task.environment_id}`
  const { value: environment } = await api.get(path, OfEnvironment)
  return { server: environment.server, environmentId: environment.id }
}

/** Opens the connection while the files are looked up. */
async function prepareSource(
  context: Context,
  api: Api,
  taskId: number,
  { direct }: { direct: boolean },
): Promise<ArtifactSource> {
  const source = openSource(context, api, await findPlace(api, taskId), direct)
  source.prepare?.()
  return source
}

function openSource(context: Context, api: Api, place: SshPlace, direct: boolean): ArtifactSource {
  const { io, screen } = context
  const note = (text: string) => screen.note(cleanText(text))
  return openSshSource({ api, io }, place, { direct, note })
}

/** By its full path, or its last part if that is unique. */
function pick({ artifacts, taskId }: Found, names: readonly string[]): Artifact[] {
  if (names.length === 0) return artifacts
  return names.map((name) => {
    const exact = artifacts.filter((one) => one.path === name)
    const short = artifacts.filter((one) => one.name === name)
    const [found] = exact.length > 0 ? exact : short.length === 1 ? short : []
    if (found) return found
    const hint = suggest(name, artifacts.map(({ path }) => path).slice(0, 200), 'files')
    throw new CliError(EXIT.notFound, `task ${taskId} has no file '${cleanText(name)}'`, hint)
  })
}

/** One after the other, into the folder; the first failure ends it, and the files that exist are complete. */
async function downloadAll(
  context: Context,
  source: ArtifactSource,
  artifacts: readonly Artifact[],
  o: { dir: string; force: boolean },
  say: (fetched: readonly Fetched[]) => Promise<void>,
): Promise<void> {
  const { io } = context
  const dir = resolve(io.cwd, o.dir)
  for (const { path } of artifacts) splitName(path) // a hostile name: nothing is fetched at all
  const sleep = (ms: number) => io.sleep(ms)
  const release = io.atExit(removeParts)
  try {
    await fetchArtifacts(source, artifacts, { dir, force: o.force, sleep }, say)
  } catch (error) {
    throw io.interrupted.aborted ? interrupted() : namingFolder(error, dir)
  } finally {
    release()
  }
}

/** Explains errors of this machine's own disk. */
function namingFolder(error: unknown, dir: string): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException
  if (error instanceof CliError || !syscall) return error
  return new CliError(EXIT.error, `${dir} cannot be written to (${code})`, undefined, error)
}

async function performArtifactsDownload(
  options: DownloadOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { taskId } = options
  const early = taskId === undefined ? undefined : prepareSource(context, api, taskId, options)
  early?.catch(() => {}) // looking up the files reports problems with the task first
  const written: Fetched[] = []
  try {
    const found = await findArtifacts(api, context, taskId)
    const chosen = pick(found, options.names)
    if (chosen.length === 0) {
      throw new CliError(EXIT.notFound, `task ${found.taskId} left no files`)
    }
    const source = await (early ?? prepareSource(context, api, found.taskId, options))
    await downloadAll(context, source, chosen, options, async (fetched) => {
      written.push(...fetched)
      if (screen.json) return
      await screen.print(fetched.map(({ path }) => cleanText(path)).join('\n'))
    })
  } finally {
    await early?.then((source) => source.close?.()).catch(() => {})
  }
  if (screen.json) {
    await screen.printJson(written.map(({ path, artifact }) => ({ ...artifact, saved_as: path })))
  }
  return EXIT.done
}

export const artifactsDownload = compose(parseArtifactsDownload, performArtifactsDownload)

/** After an action: downloads everything it left. */
export async function downloadOf(
  context: Context,
  api: Api,
  taskId: number,
  dir: string,
): Promise<void> {
  const { artifacts } = await readArtifacts(api, taskId)
  const { screen } = context
  if (artifacts.length === 0) return screen.note('It left no files.')
  const source = openSource(context, api, await findPlace(api, taskId), false)
  await downloadAll(context, source, artifacts, { dir, force: false }, async (fetched) => {
    for (const { path, artifact } of fetched) {
      await screen.note(`  ${cleanText(path)}   ${formatBytes(artifact.size_bytes)}`)
    }
  })
}
