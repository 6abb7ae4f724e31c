// How a step ends other than in success: a failure that users see, or an interruption from outside. Anything else that
// is thrown is a defect of Berth and is reported as `internal`.

import { FailureCode } from '@berth/shared/wire'
import { EngineError } from '../machine/docker/engine-error.ts'
import { isDiskFull } from '../machine/git/failure.ts'
import { serverName } from '../machine/server-settings.ts'
import { EdgeError } from '../proxy/protocol.ts'
import type { AgentSettings } from '../settings.ts'

interface FailureFacts {
  exitCode?: number | undefined
  signal?: string | undefined
  /** False for the repository's own commands; the platform's checks explain themselves. */
  isCheck?: boolean
}

export class StepFailure extends Error {
  override readonly name = 'StepFailure'
  readonly code: FailureCode
  readonly exitCode: number | undefined
  readonly signal: string | undefined
  readonly isCheck: boolean

  constructor(code: FailureCode, message: string, facts: FailureFacts = {}) {
    super(message)
    this.code = code
    this.exitCode = facts.exitCode
    this.signal = facts.signal
    this.isCheck = facts.isCheck ?? true
  }
}

/** The step was abandoned because the attempt was stopped, timed out or can no longer write. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

const DISK = new Set(['ENOSPC', 'EDQUOT'])

/** Converts anything that a step throws to a failure. */
export function asFailure(
  error: unknown,
  stepId: string,
  attemptId: string,
  settings: AgentSettings,
): StepFailure {
  if (error instanceof StepFailure) return error
  const { code, message } = error as NodeJS.ErrnoException
  const isFull = error instanceof EngineError && error.kind === 'disk_full'
  if (isFull || DISK.has(code ?? '') || isDiskFull(message ?? '')) {
    return new StepFailure(
      FailureCode.DISK_FULL,
      `The disk of this server became full in step ${stepId}. Free some space and deploy again.`,
    )
  }
  if (error instanceof EngineError) {
    const how = error.kind === 'unavailable' ? 'does not answer' : `refused step ${stepId}`
    return new StepFailure(
      FailureCode.DOCKER_UNAVAILABLE,
      `The Docker engine of server ${serverName(settings)} ${how}: ${error.message.replace(/\.$/, '')}.`,
    )
  }
  if (error instanceof EdgeError) {
    return new StepFailure(FailureCode.PROXY_UNAVAILABLE, error.message)
  }
  return new StepFailure(
    FailureCode.INTERNAL,
    `Internal error in step ${stepId} (attempt ${attemptId}).`,
    { isCheck: false },
  )
}

export const missing = (
  { settings }: { settings: AgentSettings },
  recipe: 'docker' | 'manual',
  why: string,
): StepFailure =>
  new StepFailure(
    FailureCode.CAPABILITY_MISSING,
    `Server ${serverName(settings)} cannot run the ${recipe} recipe: ${why}`,
  )
