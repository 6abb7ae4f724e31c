// The failure that users read: code, step, sentence. One shape for everything that can make a task fail.
import type { Failure } from '@berth/shared/api'

interface FailedStep {
  phase: string
  stepId: string
  title: string
  line: number | null
}

export function describeFailure(facts: {
  code: string
  message: string
  step?: FailedStep | undefined
  exitCode?: number | null | undefined
  platformCheck?: boolean
}): Failure {
  return {
    code: facts.code,
    phase: facts.step?.phase ?? null,
    step: facts.step?.stepId ?? null,
    step_title: facts.step?.title ?? null,
    message: facts.message,
    exit_code: facts.exitCode ?? null,
    line: facts.step?.line ?? null,
    is_platform_check: facts.platformCheck ?? false,
  }
}
