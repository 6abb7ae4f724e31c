// Names and labels of everything that is made in the engine. Only what carries our label is ever listed; the names let
// a person see whose it is.
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
} as const

export type NamingSettings = Pick<AgentSettings, 'accountPrefix'>
export type OwnerSettings = Pick<AgentSettings, 'owner'>

export const containerName = (
  s: NamingSettings,
  environmentId: number,
  service: string,
  taskId: number,
): string => `${s.accountPrefix}${environmentId}-${service}-${taskId}`

export const releaseName = (
  s: NamingSettings,
  environmentId: number,
  service: string,
  taskId: number,
): string => `${containerName(s, environmentId, service, taskId)}-release`

const imagePrefix = (s: NamingSettings): string => `${s.accountPrefix.replace(/-e$/, '')}/e`

/** Names that people gave to our images are theirs. */
export const isImageName = (s: NamingSettings, name: string): boolean =>
  name.startsWith(imagePrefix(s)) && /^\d+-/.test(name.slice(imagePrefix(s).length))

/** `berth/e101-web:812`: how people see an image in logs and answers. No image of the engine has this name. */
export const shownImage = (
  s: NamingSettings,
  environmentId: number,
  service: string,
  taskId: number,
): string => `${imagePrefix(s)}${environmentId}-${service}:${taskId}`

const SECRET_PART = /-[0-9a-f]{32}$/

/** Ends in a random part, because a build can use every image whose name it knows. The name never leaves the server. */
export const hideImage = (shown: string): string => `${shown}-${randomBytes(16).toString('hex')}`

export const showImage = (name: string): string => name.replace(SECRET_PART, '')

/** As versions before this one named images. */
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
  /** Hash of what the container is made from. */
  spec?: string | undefined
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
  ]
  return Object.fromEntries(
    values.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  )
}

/** The engine's filter for what is ours, of one environment or of all. */
export const ownedFilter = (s: OwnerSettings, environmentId?: number): string =>
  JSON.stringify({
    label: [
      `${LABELS.agent}=${s.owner}`,
      ...(environmentId === undefined ? [] : [`${LABELS.environment}=${environmentId}`]),
    ],
  })
