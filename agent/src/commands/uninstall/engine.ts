// What Berth made in the Docker engine, also where identity and ledger are lost. An object is ours if it carries our
// label, and either the label names this agent or the object has a name that this agent gives. Objects of other agents
// on the same engine, and everything without the label, stay.
import { STEPS } from '@berth/shared'
import type { Ledger } from '../../journal/ledger.ts'
import { UNINSTALL } from '../../limits/maintenance.ts'
import { removeContainer, stopContainer } from '../../machine/docker/containers.ts'
import type { Engine } from '../../machine/docker/engine.ts'
import { pruneBuildCache, readEngineId } from '../../machine/docker/engine-info.ts'
import { inspectImage, removeImage } from '../../machine/docker/images.ts'
import { isImageName, LABELS, showImage } from '../../machine/docker/names.ts'
import { removeVolume } from '../../machine/docker/volumes.ts'
import type { AgentSettings } from '../../settings.ts'

export interface EngineObject {
  kind: 'container' | 'network' | 'volume' | 'image'
  id: string
  /** Of an image: every name it has. */
  names: string[]
  environmentId: number
}

type Labels = Record<string, string> | null | undefined

const FILTERS = JSON.stringify({ label: [LABELS.agent] })

function isOwnName({ accountPrefix }: AgentSettings, name: string): boolean {
  return name.startsWith(accountPrefix) && /^\d+(-|$)/.test(name.slice(accountPrefix.length))
}

/** In the order of their removal. */
export async function listObjects(
  engine: Engine,
  settings: AgentSettings,
): Promise<EngineObject[]> {
  const docker = await engine.docker()
  const [containers, networks, volumes, images] = await Promise.all([
    docker.listContainers({ all: true, filters: FILTERS }),
    docker.listNetworks({ filters: FILTERS }),
    docker.listVolumes({ filters: FILTERS }),
    docker.listImages({ filters: FILTERS }),
  ])
  const pick = (kind: EngineObject['kind'], id: string, names: string[], labels: Labels) => {
    const isNamed = names.some((name) =>
      kind === 'image' ? isImageName(settings, name) : isOwnName(settings, name),
    )
    if (labels?.[LABELS.agent] !== settings.owner && !isNamed) return []
    return [{ kind, id, names, environmentId: Number(labels?.[LABELS.environment] ?? 0) || 0 }]
  }
  return [
    ...containers.flatMap(({ Id, Names, Labels }) =>
      pick(
        'container',
        Id,
        Names.map((name) => name.replace(/^\//, '')),
        Labels,
      ),
    ),
    ...networks.flatMap(({ Id, Name, Labels }) => pick('network', Id, [Name], Labels)),
    ...(volumes.Volumes ?? []).flatMap(({ Name, Labels }) => pick('volume', Name, [Name], Labels)),
    ...images.flatMap(({ Id, RepoTags, Labels }) => {
      const all = (RepoTags ?? []).filter((name) => name !== '<none>:<none>')
      const own = all.filter((name) => isImageName(settings, name))
      // people gave it a name of their own, so they want to keep it
      return all.length > 0 && own.length === 0 ? [] : pick('image', Id, own, Labels)
    }),
  ]
}

/** Names of the objects, as `volume berth-e7-data`. */
export const nameObject = ({ kind, names, id }: EngineObject): string =>
  `${kind} ${showImage(names[0] ?? id.slice(0, 19))}`

async function removeObject(engine: Engine, { kind, id, names }: EngineObject): Promise<void> {
  if (kind === 'container') {
    await stopContainer(engine, id, STEPS.stopTimeoutMs)
    return removeContainer(engine, id)
  }
  if (kind === 'network') return void (await (await engine.docker()).getNetwork(id).remove())
  if (kind === 'volume') {
    if ((await removeVolume(engine, id)) === 'in_use') throw new Error('a container uses it')
    return
  }
  for (const name of names.length > 0 ? names : [id]) {
    if ((await removeImage(engine, name)) === 'in_use') throw new Error('a container uses it')
  }
}

/** Returns what could not be removed, and why. Containers go before what they use. */
export async function removeObjects(
  engine: Engine,
  objects: readonly EngineObject[],
): Promise<string[]> {
  const problems: string[] = []
  for (const kind of ['container', 'network', 'volume', 'image'] as const) {
    const found = objects.filter((one) => one.kind === kind)
    for (let at = 0; at < found.length; at += UNINSTALL.parallel) {
      const part = found.slice(at, at + UNINSTALL.parallel)
      const done = await Promise.allSettled(part.map((one) => removeObject(engine, one)))
      for (const [n, result] of done.entries()) {
        const one = part[n]
        if (result.status === 'fulfilled' || !one) continue
        problems.push(`${nameObject(one)} stays: ${(result.reason as Error).message}.`)
      }
    }
  }
  return problems
}

/** Images of registries that Berth fetched. One that a foreign container uses by now stays. */
export async function removePulled(engine: Engine, ledger: Ledger): Promise<number> {
  const names = new Set(ledger.objects.list({ kind: 'pulled' }).map(({ name }) => name))
  let count = 0
  for (const name of names) {
    if (!(await inspectImage(engine, name))) continue
    if ((await removeImage(engine, name)) === 'removed') count += 1
  }
  return count
}

/** Only where nothing but Berth used the engine, because records of the cache have no owner. */
export async function removeCache(engine: Engine, ledger: Ledger): Promise<number> {
  if (ledger.usage.isExclusive(await readEngineId(engine)) !== true) return 0
  return pruneBuildCache(engine, { olderMs: 0, keepBytes: 0 })
}
