// Removes from the engine what no version of an environment needs (resources/garbage-rules.ts decides), for a
// deployment at its end and for the daemon. Invariants: only objects with our label and a ledger row are removed, by
// id; an object with our label but no row gets one first; objects of other agents are not even listed. The caller makes
// sure that no other deployment works in the environment.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { STEPS } from '@berth/shared'
import type { Ledger } from '../journal/ledger.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { MAINTENANCE } from '../limits/maintenance.ts'
import {
  listOwnedContainers,
  removeContainer,
  stopContainer,
} from '../machine/docker/containers.ts'
import type { Engine } from '../machine/docker/engine.ts'
import {
  inspectImage,
  listOwnedImages,
  removeImage,
  removeNameless,
  tagImage,
} from '../machine/docker/images.ts'
import { hideImage, isGuessable, LABELS, showImage, volumeName } from '../machine/docker/names.ts'
import { listOwnedNetworks, removeNetwork } from '../machine/docker/networks.ts'
import { listOwnedVolumes, removeVolume } from '../machine/docker/volumes.ts'
import { environmentPaths, listFolder } from '../machine/files.ts'
import { isDockerPlan, type LastPlan } from '../runner/plan/plan.ts'
import { drainContainerLog } from '../service-logs/drain.ts'
import type { AgentSettings } from '../settings.ts'
import { decideCollection } from './garbage-rules.ts'

export interface CollectRequest {
  environmentId: number
  /** The deployment that asks, at its end; its own unfinished objects stay. */
  attemptId?: string | undefined
  now?: number
}

interface Collected {
  /** Names, as `image berth/e1-web:5`. */
  removed: string[]
  /** What could not be removed, and why; the next collection tries again. */
  problems: string[]
}

/** What the engine holds of an environment, by kind and name; objects are removed by id. */
interface Found {
  kind: ObjectRow['kind']
  name: string
  id: string
  labels: Record<string, string>
  isRunning: boolean
  madeAt: Date
}

const STILL = { isRunning: false, madeAt: new Date(0) }

async function takeInventory(
  engine: Engine,
  settings: AgentSettings,
  environmentId: number,
): Promise<Found[]> {
  const [containers, images, networks, volumes] = await Promise.all([
    listOwnedContainers(engine, settings, environmentId),
    listOwnedImages(engine, settings, environmentId),
    listOwnedNetworks(engine, settings, environmentId),
    listOwnedVolumes(engine, settings, environmentId),
  ])
  return [
    ...containers.map(({ id, name, labels, state, madeAt }) => {
      return {
        kind: 'container' as const,
        id,
        name,
        labels,
        madeAt,
        isRunning: state === 'running' || state === 'restarting',
      }
    }),
    ...images.flatMap(({ id, names, labels }) =>
      // an image whose name moved to a newer build is found by its id
      (names.length > 0 ? names : [id]).map((name) => {
        return { kind: 'image' as const, id, name, labels, ...STILL }
      }),
    ),
    ...networks.map(({ id, name, labels }) => {
      return { kind: 'network' as const, id, name, labels, ...STILL }
    }),
    ...volumes.map(({ name, labels }) => {
      return { kind: 'volume' as const, id: name, name, labels, ...STILL }
    }),
  ]
}

export function readPlan(ledger: Ledger, environmentId: number): LastPlan | null {
  const stored = ledger.findPlan(environmentId)
  return stored ? (JSON.parse(stored.body) as LastPlan) : null
}

/** An object with our label but no row (a lost ledger) gets one, and is judged like the others from then on. */
function adopt(ledger: Ledger, environmentId: number, found: Found): void {
  const { kind, name, id, labels, isRunning } = found
  const isNameless = kind === 'image' && name === id
  const state = isNameless ? 'making' : kind === 'container' && isRunning ? 'serving' : 'kept'
  ledger.objects.put({
    kind,
    name,
    environmentId,
    taskId: Number(labels[LABELS.task] ?? 0) || 0,
    attemptId: labels[LABELS.attempt] ?? '',
    service: labels[LABELS.service] ?? '',
    state,
    facts: kind === 'image' ? { imageId: id } : {},
  })
}

/** Matches the rows of an environment with what the engine holds; returns both. */
async function match(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
  { environmentId, attemptId }: CollectRequest,
): Promise<Map<ObjectRow, Found | undefined>> {
  const inventory = await takeInventory(engine, settings, environmentId)
  const keyOf = ({ kind, name }: Pick<Found, 'kind' | 'name'>): string => `${kind} ${name}`
  const known = new Set(ledger.objects.list({ environmentId }).map(keyOf))
  for (const found of inventory) if (!known.has(keyOf(found))) adopt(ledger, environmentId, found)
  const byKey = new Map(inventory.map((found) => [keyOf(found), found]))
  const matched = new Map<ObjectRow, Found | undefined>()
  for (const row of ledger.objects.list({ environmentId })) {
    const found = byKey.get(keyOf(row))
    const isOwn = row.state === 'making' && row.attemptId === attemptId
    // pulled images do not carry our label, so they are looked up one by one
    const isThere =
      row.kind === 'pulled' ? (await inspectImage(engine, row.name)) !== undefined : found
    if (isThere || isOwn) matched.set(row, found)
    else ledger.objects.remove(row)
  }
  return matched
}

/** Another environment pulled it too. */
export const isShared = (ledger: Ledger, row: ObjectRow): boolean =>
  ledger.objects
    .list({ kind: 'pulled' })
    .some(({ name, environmentId }) => name === row.name && environmentId !== row.environmentId)

const idsOf = ({ facts }: ObjectRow): string[] =>
  Array.isArray(facts.imageIds) ? facts.imageIds.filter((id) => typeof id === 'string') : []

/** A moved tag leaves its previous image without a name; the ids seen under the tag find it. */
export async function removeFormer(
  engine: Engine,
  ledger: Ledger,
  row: ObjectRow,
  current: string | undefined,
): Promise<void> {
  const former = idsOf(row).filter((id) => id !== current)
  const others = ledger.objects.list({ kind: 'pulled' }).filter((other) => other.name !== row.name)
  for (const id of former)
    if (!others.some((o) => idsOf(o).includes(id))) await removeNameless(engine, id)
}

/** For each pulled image of the running version: records its current id and removes the previous image. */
async function followTags(
  engine: Engine,
  ledger: Ledger,
  plan: LastPlan | null,
  rows: ObjectRow[],
) {
  if (!isDockerPlan(plan)) return
  for (const row of rows.filter(({ kind }) => kind === 'pulled')) {
    const used = plan.services.find(({ image }) => image === row.name)
    if (!used || (idsOf(row).length === 1 && idsOf(row)[0] === used.imageId)) continue
    await removeFormer(engine, ledger, row, used.imageId)
    ledger.objects.put({ ...row, facts: { ...row.facts, imageIds: [used.imageId] } })
  }
}

/** Stops it, reads its log to the end and removes it. The caller deletes the row. */
export async function endContainer(
  engine: Engine,
  settings: AgentSettings,
  row: ObjectRow,
  found: { id: string; madeAt: Date; isRunning: boolean },
): Promise<void> {
  if (found.isRunning) {
    await stopContainer(engine, found.id, Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs))
  }
  // the removal continues if the log cannot be read
  await drainContainerLog(engine, settings, row, found).catch(() => undefined)
  await removeContainer(engine, found.id)
}

/** 'in_use': it stays for now. */
async function removeObject(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
  row: ObjectRow,
  found: Found | undefined,
): Promise<'removed' | 'in_use'> {
  switch (row.kind) {
    case 'container':
      if (found) await endContainer(engine, settings, row, found)
      return 'removed'
    case 'image':
      return removeImage(engine, row.name)
    case 'pulled':
      // if a foreign container uses it, the image is no longer ours
      if (!isShared(ledger, row)) await removeImage(engine, row.name)
      await removeFormer(engine, ledger, row, undefined)
      return 'removed'
    case 'network':
      return removeNetwork(engine, settings, row.name)
    case 'volume':
      return removeVolume(engine, row.name)
  }
}

function namedVolumes(settings: AgentSettings, environmentId: number, plan: LastPlan | null) {
  if (!isDockerPlan(plan)) return new Set<string>()
  const names = [
    ...plan.section.volumes,
    ...plan.section.services.flatMap(({ volumes }) => volumes.map(({ name }) => name)),
  ]
  return new Set(names.map((name) => volumeName(settings, environmentId, name)))
}

/** `812.sh`, `812-web.env`, and what a writer that died left beside them. */
const VARIABLES = /^([0-9]+(?:-.+)?)\.(?:sh|env)(?:\.tmp)?$/

/**
 * Removes variable files of either recipe that nothing of the environment uses, so that replaced values do not stay on
 * disk. Keeps those of the running version and of every existing container and process.
 */
export function collectVariables(
  settings: AgentSettings,
  ledger: Ledger,
  environmentId: number,
): void {
  const plan = readPlan(ledger, environmentId)
  if (!plan) return
  const rows = ledger.objects.list({ environmentId, kind: 'container' })
  const used = [...rows, ...(isDockerPlan(plan) ? plan.services : [])]
  const kept = new Set([
    ...used.map(({ taskId, service }) => `${taskId}-${service}`),
    ...ledger
      .listProcesses(environmentId)
      .flatMap(({ taskId, service }) => [String(taskId), `${taskId}-${service}`]),
    ...(isDockerPlan(plan) ? [] : [String(plan.taskId)]),
  ])
  const folder = environmentPaths(settings, environmentId).variables
  for (const name of listFolder(folder)) {
    const of = VARIABLES.exec(name)?.[1]
    if (of !== undefined && !kept.has(of)) rmSync(join(folder, name), { force: true })
  }
}

/**
 * Renames images of old agent versions, whose names other users could guess and build upon. The row of the new name is
 * committed before the name exists; a second call continues.
 */
async function hideNames(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
  environmentId: number,
): Promise<void> {
  const rows = ledger.objects.list({ environmentId, kind: 'image' })
  for (const { id, names, labels } of await listOwnedImages(engine, settings, environmentId)) {
    for (const name of names.filter((one) => isGuessable(settings, one))) {
      const hidden = hideImage(name)
      const row = rows.find((one) => one.name === name)
      if (row) ledger.objects.put({ ...row, name: hidden })
      else adopt(ledger, environmentId, { kind: 'image', name: hidden, id, labels, ...STILL })
      await tagImage(engine, id, hidden)
      await removeImage(engine, name)
      if (row) ledger.objects.remove(row)
    }
  }
}

export async function collectEnvironment(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
  request: CollectRequest,
): Promise<Collected> {
  const { environmentId, now = Date.now() } = request
  await hideNames(engine, ledger, settings, environmentId)
  const matched = await match(engine, ledger, settings, request)
  const plan = readPlan(ledger, environmentId)
  const decision = decideCollection(
    {
      rows: [...matched.keys()],
      plan,
      namedVolumes: namedVolumes(settings, environmentId, plan),
      ownAttempt: request.attemptId,
      isDraining: (row) => ledger.isDraining(row),
      now,
    },
    { images: MAINTENANCE.keptImages, unnamedVolumeMs: MAINTENANCE.unnamedVolumeMs },
  )
  for (const { row, state } of decision.mark) ledger.objects.setState(row, state)
  for (const row of decision.flag) {
    ledger.objects.put({ ...row, facts: { ...row.facts, unnamedSince: now } })
  }
  for (const { facts, ...row } of decision.unflag) {
    const { unnamedSince: _, ...rest } = facts
    ledger.objects.put({ ...row, facts: rest })
  }
  const collected: Collected = { removed: [], problems: [] }
  for (const row of decision.remove) {
    const what = `${row.kind} ${showImage(row.name)}`
    try {
      const result = await removeObject(engine, ledger, settings, row, matched.get(row))
      if (result === 'in_use') continue
      ledger.objects.remove(row)
      collected.removed.push(what)
    } catch (error) {
      collected.problems.push(`${what} could not be removed: ${(error as Error).message}`)
    }
  }
  await followTags(engine, ledger, plan, ledger.objects.list({ environmentId }))
  collectVariables(settings, ledger, environmentId)
  return collected
}
