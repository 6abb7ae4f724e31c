// The refusals that callers get when the storage fails, with the same words in every gateway.
import { AppError } from '@berth/shared'
import { LogGone } from '../../store/deployments/log-index.ts'
import { isOutcomeUnknown, isStorageFull, isStoreUnavailable } from '../../store/engine/faults.ts'

/** Undefined if the error has another cause. */
export function storeRefusal(error: unknown): AppError | undefined {
  if (isStorageFull(error)) {
    return new AppError(
      'storage_full',
      'The control plane has no room left to write. Nothing was changed.',
    )
  }
  if (isOutcomeUnknown(error)) {
    return new AppError(
      'outcome_unknown',
      'The database went away while the change was being stored, so it may have been stored or not. ' +
        'Repeat the request with the same Idempotency-Key, or look before you repeat it.',
    )
  }
  if (isStoreUnavailable(error)) {
    return new AppError(
      'database_unavailable',
      'The database does not answer now. Try again in a moment.',
    )
  }
  return error instanceof LogGone ? logGone() : undefined
}

export const logGone = (): AppError =>
  new AppError('log_gone', 'The log of this task is no longer stored on the control plane.')
