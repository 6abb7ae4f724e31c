// Pulls, inspects, tags and removes images. Removal is never forced, so an image that a container uses stays.
import type { Readable } from 'node:stream'
import type { ImageInspectInfo } from 'dockerode'
import { ENGINE } from '../../limits/docker.ts'
import type { CallOptions } from './client.ts'
import type { Engine } from './engine.ts'
import { EngineError, isNotFound, orMissing, saysDiskFull, toEngineError } from './engine-error.ts'
import { readMessages } from './messages.ts'
import {
  isImageName,
  LABELS,
  type NamingSettings,
  type OwnerSettings,
  ownedFilter,
} from './names.ts'
import { authFor, type RegistryCredentials } from './registries.ts'

export interface Image {
  /** `sha256:…` of its configuration. */
  id: string
  entrypoint: string[]
  cmd: string[]
  env: string[]
  workingDir: string
  user: string
  size: number
  /** Undefined: the image has no check, or `HEALTHCHECK NONE`. */
  healthcheck: ImageHealthcheck | undefined
}

export interface ImageHealthcheck {
  /** A text runs through `/bin/sh -c`. */
  command: string | string[]
  timeoutMs: number | undefined
  startPeriodMs: number | undefined
  retries: number | undefined
}

/** By reference or id; the client does not encode it. */
const getImage = async (engine: Engine, reference: string, options?: CallOptions) =>
  (await engine.docker(options)).getImage(reference.split('/').map(encodeURIComponent).join('/'))

const readImage = async (engine: Engine, name: string): Promise<ImageInspectInfo | undefined> =>
  orMissing((await getImage(engine, name)).inspect())

/** By reference or id; undefined when there is none. */
export async function inspectImage(engine: Engine, reference: string): Promise<Image | undefined> {
  const raw = await readImage(engine, reference)
  return raw && toImage(raw)
}

/** As the engine displays it: `docker.io/library/postgres` is `postgres`. */
const familiar = (reference: string): string =>
  reference.replace(/^(?:index\.)?docker\.io\//, '').replace(/^library\//, '')

/**
 * Finds an image by its registry name alone. The engine also accepts ids and prefixes of ids as names; and images that
 * Berth built, for any environment, cannot be pulled.
 */
export async function findPulled(engine: Engine, reference: string): Promise<Image | undefined> {
  const raw = await readImage(engine, reference)
  if (!raw || raw.Config?.Labels?.[LABELS.agent] !== undefined) return undefined
  const wanted = familiar(withTag(reference).replace(/:[^/@]+@/, '@'))
  const names = [...(raw.RepoTags ?? []), ...(raw.RepoDigests ?? [])]
  return names.some((name) => familiar(name) === wanted) ? toImage(raw) : undefined
}

/** The engine counts in nanoseconds, and 0 means its default. */
function healthcheckOf({ Config }: ImageInspectInfo): ImageHealthcheck | undefined {
  const { Test, Timeout, StartPeriod, Retries } = Config?.Healthcheck ?? {}
  const [kind, ...words] = Test ?? []
  const [text] = words
  if ((kind !== 'CMD' && kind !== 'CMD-SHELL') || text === undefined) return undefined
  const ms = (nanoseconds: number | undefined): number | undefined =>
    nanoseconds ? Math.ceil(nanoseconds / 1e6) : undefined
  return {
    command: kind === 'CMD' ? words : text,
    timeoutMs: ms(Timeout),
    startPeriodMs: ms(StartPeriod),
    retries: Retries || undefined,
  }
}

function toImage(raw: ImageInspectInfo): Image {
  return {
    id: raw.Id,
    entrypoint: [raw.Config?.Entrypoint ?? []].flat(),
    cmd: raw.Config?.Cmd ?? [],
    env: raw.Config?.Env ?? [],
    workingDir: raw.Config?.WorkingDir ?? '',
    user: raw.Config?.User ?? '',
    size: raw.Size,
    healthcheck: healthcheckOf(raw),
  }
}

export interface PullOptions {
  registries?: RegistryCredentials
  signal?: AbortSignal
  /** Lines for the log, one per layer and state, without progress bars. */
  onText?: (text: string) => void
}

export interface PulledImage {
  imageId: string
  /** `postgres@sha256:…`. */
  digest: string
}

interface PullMessage {
  id?: string
  status?: string
  error?: string
  progressDetail?: object
}

/** Fails with the registry's reason. `postgres` means `postgres:latest`, never all its tags. */
export async function pullImage(
  engine: Engine,
  reference: string,
  { registries = new Map(), signal, onText }: PullOptions = {},
): Promise<PulledImage> {
  const silence = new AbortController()
  const timer = setTimeout(() => silence.abort(), ENGINE.pullSilenceMs)
  let digest = ''
  try {
    const docker = await engine.docker({
      timeoutMs: ENGINE.pullSilenceMs,
      signal: signal ? AbortSignal.any([signal, silence.signal]) : silence.signal,
    })
    const auth = authFor(registries, reference)
    const stream = await docker.createImage(auth, { fromImage: withTag(reference) })
    for await (const message of readMessages<PullMessage>(stream as Readable)) {
      timer.refresh()
      if (message.error) throw refusal(message.error)
      const isProgress = message.progressDetail && Object.keys(message.progressDetail).length > 0
      if (!message.status || isProgress) continue
      digest = /^Digest: (\S+)$/.exec(message.status)?.[1] ?? digest
      onText?.(`${message.id ? `${message.id}: ` : ''}${message.status}\n`)
    }
  } catch (error) {
    if (silence.signal.aborted && !signal?.aborted) {
      const seconds = ENGINE.pullSilenceMs / 1_000
      throw new EngineError('unavailable', `no progress of ${reference} for ${seconds} s`)
    }
    throw toEngineError(error, signal)
  } finally {
    clearTimeout(timer)
  }
  const raw = await readImage(engine, reference)
  if (!raw) throw new EngineError('not_found', `${reference} is not there after its pull`)
  const pinned = raw.RepoDigests?.find((name) => digest !== '' && name.endsWith(`@${digest}`))
  return { imageId: raw.Id, digest: pinned ?? raw.RepoDigests?.[0] ?? '' }
}

/** Asks the registry whether this image can be had. Throws its refusal. */
export async function lookUpImage(
  engine: Engine,
  reference: string,
  registries: RegistryCredentials,
  signal?: AbortSignal,
): Promise<void> {
  const options = { timeoutMs: ENGINE.lookMs, ...(signal ? { signal } : {}) }
  const image = await getImage(engine, withTag(reference), options)
  const authconfig = authFor(registries, reference)
  await image.distribution(authconfig ? { authconfig } : {})
}

const refusal = (message: string): EngineError => {
  return new EngineError(saysDiskFull(message) ? 'disk_full' : 'refused', message.trim())
}

/** `postgres` is `postgres:latest`. */
export const withTag = (reference: string): string =>
  /@|:[^/]+$/.test(reference) ? reference : `${reference}:latest`

export async function tagImage(engine: Engine, reference: string, name: string): Promise<void> {
  const [, repo = name, tag = 'latest'] = /^(.+?)(?::([^:/]+))?$/.exec(name) ?? []
  await (await getImage(engine, reference)).tag({ repo, tag })
}

/** Removes a name, or an id with its last name; idempotent. 'in_use' when a container or another image needs it. */
export async function removeImage(
  engine: Engine,
  reference: string,
): Promise<'removed' | 'in_use'> {
  try {
    const image = await getImage(engine, reference, { timeoutMs: ENGINE.removeImageMs })
    await image.remove({ force: false })
    return 'removed'
  } catch (error) {
    if (isNotFound(error)) return 'removed'
    if (error instanceof EngineError && error.kind === 'conflict') return 'in_use'
    throw error
  }
}

/** By its id. Keeps an image that a person has named meanwhile. */
export async function removeNameless(engine: Engine, id: string): Promise<void> {
  const raw = await readImage(engine, id)
  if (raw && (raw.RepoTags ?? []).length === 0) await removeImage(engine, id)
}

export interface OwnedImage {
  id: string
  /** Empty when newer images took its names. */
  names: string[]
  size: number
  /** Seconds since the epoch. */
  created: number
  labels: Record<string, string>
}

/**
 * Images built for environments; pulled images lack our label. Leaves out an image with only names that people gave it,
 * because they want to keep it.
 */
export async function listOwnedImages(
  engine: Engine,
  settings: OwnerSettings & NamingSettings,
  environmentId?: number,
): Promise<OwnedImage[]> {
  const docker = await engine.docker()
  const found = await docker.listImages({ filters: ownedFilter(settings, environmentId) })
  return found.flatMap((raw) => {
    const all = (raw.RepoTags ?? []).filter((name) => name !== '<none>:<none>')
    const names = all.filter((name) => isImageName(settings, name))
    if (all.length > 0 && names.length === 0) return []
    const { Id: id, Size: size, Created: created } = raw
    return { id, names, size, created, labels: raw.Labels ?? {} }
  })
}
