// The refusals that callers get when the storage fails, with the same words in every gateway.
import { AppError } from '@berth/shared'
import { LogGone } from '../../store/deployments/log-index.ts'
import { isStorageFull, isStoreUnavailable } from '../../store/engine/faults.ts'

/** Undefined if the error has another cause. */
export function storeRefusal(error: unknown): AppError | undefined {
  if (isStorageFull(error)) {
    return new AppError(
      'storage_full',
      'The control plane has no room left to write. Nothing was changed.',
    )
  }
  if (isStoreUnavailable(error)) {
    return new AppError('unavailable', 'The database does not answer now. Try again in a moment.')
  }
  return error instanceof LogGone ? logGone() : undefined
}

export const logGone = (): AppError =>
  new AppError('log_gone', 'The log of this task is no longer stored on the control plane.')
