// What the doctors of the control plane and of a server say: one line for each thing that was looked at, with what to do.

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

const WORDS: Readonly<Record<Finding['status'], string>> = {
  ok: 'ok',
  warning: 'warning',
  problem: 'problem',
  skipped: 'not checked',
}

const INDENT = ' '.repeat(13)

export const writeFindings = (findings: readonly Finding[]): string[] =>
  findings.flatMap(({ subject, status, message, fix }) => [
    `${WORDS[status].padEnd(INDENT.length)}${subject}: ${message}`,
    ...(fix === undefined ? [] : [`${INDENT}→ ${fix}`]),
  ])

export const asText = (findings: readonly Finding[]): string =>
  [...writeFindings(findings), '', summarize(findings)].join('\n')

const count = (findings: readonly Finding[], status: Finding['status']): number =>
  findings.filter((one) => one.status === status).length

function summarize(findings: readonly Finding[]): string {
  const problems = count(findings, 'problem')
  const warnings = count(findings, 'warning')
  if (problems + warnings === 0) return 'No problem was found.'
  return `Problems: ${problems}, warnings: ${warnings}.`
}

export const asJson = (findings: readonly Finding[]): string =>
  JSON.stringify(
    { findings, problems: count(findings, 'problem'), warnings: count(findings, 'warning') },
    null,
    2,
  )

export const hasProblem = (findings: readonly Finding[]): boolean => count(findings, 'problem') > 0
