// Why a backup cannot be used. The message says what is wrong and what to do.

export class BackupError extends Error {
  override readonly name = 'BackupError'
}

export const damaged = (why: string, cause?: unknown): BackupError =>
  new BackupError(
    `The backup is damaged: ${why}. Nothing was restored. Take another copy of it, or an older backup.`,
    {
      cause,
    },
  )
