// What both recipes report once a deployment is the running version.
import type { Action } from '@berth/shared/service-file'
import { ActionScheduleSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import type { Attempt } from '../attempt.ts'
import { toDuration } from '../report.ts'

export const toWireAction = (action: Action) => ({
  name: action.name,
  title: action.title,
  description: action.description,
  confirm: action.confirm ?? '',
  service: action.service ?? '',
  timeout: toDuration(action.timeoutMs),
  artifactPaths: action.artifacts?.paths ?? [],
  artifactRetention: toDuration(action.artifacts?.retentionMs ?? 0),
  disabledReason: action.disabledReason ?? '',
  ...(action.schedule && { schedule: create(ActionScheduleSchema, action.schedule) }),
})

/** After the point of no return: a failure to report (more than an event holds) is a warning. */
export function reportOrWarn(attempt: Attempt, what: string, act: () => void): void {
  try {
    act()
  } catch (error) {
    attempt.output.say(`Warning: ${what} could not be told: ${(error as Error).message}`)
  }
}
