// One line of `berth-server doctor`.

export interface Finding {
  /** What was looked at: 'port 7080', 'mail'. */
  subject: string
  /** `skipped`: it could not be checked here, and may be fine. */
  status: 'ok' | 'warning' | 'problem' | 'skipped'
  message: string
  /** What to do. */
  fix?: string
}

export const ok = (subject: string, message: string): Finding => ({
  subject,
  status: 'ok',
  message,
})
export const warning = (subject: string, message: string, fix: string): Finding => ({
  subject,
  status: 'warning',
  message,
  fix,
})
export const problem = (subject: string, message: string, fix: string): Finding => ({
  subject,
  status: 'problem',
  message,
  fix,
})
export const skipped = (subject: string, message: string, fix?: string): Finding => ({
  subject,
  status: 'skipped',
  message,
  ...(fix === undefined ? {} : { fix }),
})

/** 'ECONNREFUSED', or the first line of the message. */
export function reasonOf(error: unknown): string {
  const { code, message, cause } = error as { code?: string; message?: string; cause?: unknown }
  if (cause) return reasonOf(cause)
  return code ?? (message ?? String(error)).split('\n')[0] ?? ''
}
