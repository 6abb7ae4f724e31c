// Names and labels of everything that Berth makes in the engine. Only objects with our label are ever listed; the names
// show people what each object belongs to.
import { randomBytes } from 'node:crypto'
import type { AgentSettings } from '../../settings.ts'

export const LABELS = {
  agent: 'dev.berth.agent',
  environment: 'dev.berth.environment',
  service: 'dev.berth.service',
  task: 'dev.berth.task',
  fence: 'dev.berth.fence',
  attempt: 'dev.berth.attempt',
  commit: 'dev.berth.commit',
  spec: 'dev.berth.spec',
  replica: 'dev.berth.replica',
} as const

export type NamingSettings = Pick<AgentSettings, 'accountPrefix'>
export type OwnerSettings = Pick<AgentSettings, 'owner'>

export const containerName = (
  s: NamingSettings,
  environmentId: number,
  service: string,
  taskId: number,
  replica = 1,
): string =>
  // no service has a dot in its name, so the number of a replica is never part of another name
  `${s.accountPrefix}${environmentId}-${service}-${taskId}${replica > 1 ? `.${replica}` : ''}`

/** For messages: a service with one container is just the service. */
export const nameReplica = (service: string, replica: number, replicas: number): string =>
  replicas > 1 ? `${service} (replica ${replica})` : service

export const releaseName = (
  s: NamingSettings,
  environmentId: number,
  service: string,
  taskId: number,
): string => `${containerName(s, environmentId, service, taskId)}-release`

const imagePrefix = (s: NamingSettings): string => `${s.accountPrefix.replace(/-e$/, '')}/e`

/** False for names that people gave to our images. */
export const isImageName = (s: NamingSettings, name: string): boolean =>
  name.startsWith(imagePrefix(s)) && /^\d+-/.test(name.slice(imagePrefix(s).length))

/** `berth/e101-web:812`, the name that people see in logs and answers. No image in the engine has this name. */
export const shownImage = (
  s: NamingSettings,
  environmentId: number,
  service: string,
  taskId: number,
): string => `${imagePrefix(s)}${environmentId}-${service}:${taskId}`

const SECRET_PART = /-[0-9a-f]{32}$/

/** Adds a random part, because a build can use every image whose name it knows. The name never leaves the server. */
export const hideImage = (shown: string): string => `${shown}-${randomBytes(16).toString('hex')}`

export const showImage = (name: string): string => name.replace(SECRET_PART, '')

/** A name without the random part, as earlier versions of Berth made them. */
export const isGuessable = (s: NamingSettings, name: string): boolean =>
  isImageName(s, name) && !SECRET_PART.test(name)

export const networkName = (s: NamingSettings, environmentId: number): string =>
  `${s.accountPrefix}${environmentId}`

export const volumeName = (s: NamingSettings, environmentId: number, name: string): string =>
  `${s.accountPrefix}${environmentId}-${name}`

export interface LabelFacts {
  environmentId: number
  service?: string | undefined
  taskId?: number | undefined
  fence?: bigint | undefined
  attemptId?: string | undefined
  commit?: string | undefined
  /** Hash of the container's spec. */
  spec?: string | undefined
  replica?: number | undefined
}

export function labelsOf(s: OwnerSettings, facts: LabelFacts): Record<string, string> {
  const values: [string, string | number | bigint | undefined][] = [
    [LABELS.agent, s.owner],
    [LABELS.environment, facts.environmentId],
    [LABELS.service, facts.service],
    [LABELS.task, facts.taskId],
    [LABELS.fence, facts.fence],
    [LABELS.attempt, facts.attemptId],
    [LABELS.commit, facts.commit],
    [LABELS.spec, facts.spec],
    [LABELS.replica, facts.replica],
  ]
  return Object.fromEntries(
    values.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}

/** The engine's filter for our objects, of one environment or of all. */
export const ownedFilter = (s: OwnerSettings, environmentId?: number): string =>
  JSON.stringify({
    label: [
      `${LABELS.agent}=${s.owner}`,
      ...(environmentId === undefined ? [] : [`${LABELS.environment}=${environmentId}`]),
    ],
  })
