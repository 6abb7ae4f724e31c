// Formats problems for deployment output, diagnostics and terminals: at most 20, errors first, with a source excerpt
// for the first one or for all. Values that look like secrets are hidden, even in lines that only surround the mistake.
import { SERVICE_FILE } from '../limits/limits.ts'
import type { Recipe } from '../task.ts'
import { blankControls, FILE_NAME, type Problem, withoutControls } from './problem.ts'
import type { ServiceFile } from './service-file.ts'

interface FormatOptions {
  /** `first` for small terminals and a first overview, `none` for logs. */
  excerpts: 'first' | 'all' | 'none'
  /** Reserved: the text has no colors. */
  color?: false
  /** Address of the reference, printed as the last line. */
  docs?: string
}

export function formatProblems(
  source: string,
  problems: readonly Problem[],
  { excerpts, docs }: FormatOptions,
): string {
  const errors = problems.filter(({ severity }) => severity === 'error')
  const warnings = problems.filter(({ severity }) => severity === 'warning')
  const ordered = [...errors, ...warnings].slice(0, SERVICE_FILE.problems)
  const width = Math.max(...ordered.map((problem) => placeOf(problem).length), 0)
  const lines = source.replace(/^\ufeff/, '').split(/\r?\n/)
  const secrets = problems.filter(({ code }) => code === 'looks_like_secret')

  const text = [headline(problems[0]?.file ?? FILE_NAME, errors.length, warnings.length)]
  let before: Problem['severity'] | undefined
  for (const [index, problem] of ordered.entries()) {
    if (problem.severity !== before) text.push('')
    before = problem.severity
    const mark = problem.severity === 'warning' ? 'warning ' : ''
    text.push(`${mark}${placeOf(problem).padEnd(width)} ${problem.message}`)
    if (excerpts === 'all' || (excerpts === 'first' && index === 0)) {
      text.push(...excerptOf(lines, problem, secrets))
    }
  }
  const left = problems.length - ordered.length
  if (left > 0) text.push(`and ${left} more`)
  if (docs) text.push(`Docs: ${docs}`)
  return text.join('\n')
}

const placeOf = ({ file, line, column }: Problem): string => `${file}:${line}:${column}`

function headline(file: string, errors: number, warnings: number): string {
  if (errors > 0) return `✗ ${file} is not valid (${counted(errors, 'error')})`
  return `✓ ${file} is valid${warnings > 0 ? ` (${counted(warnings, 'warning')})` : ''}`
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** The line before, the line, and a marker below it. */
function excerptOf(
  lines: readonly string[],
  problem: Problem,
  secrets: readonly Problem[],
): string[] {
  const { line, column } = problem
  const width = String(line).length
  const end = problem.end_line === line ? problem.end_column : (lines[line - 1]?.length ?? 0) + 1
  const from = Math.max(0, column - 1 - SERVICE_FILE.excerptCharacters / 2)
  const show = (number: number): string => {
    const whole = hideSecrets(lines[number - 1] ?? '', number, secrets)
    const part = whole.slice(from, from + SERVICE_FILE.excerptCharacters)
    return `  ${String(number).padStart(width)} │ ${blankControls(part)}`.trimEnd()
  }
  const room = SERVICE_FILE.excerptCharacters - (column - 1 - from)
  const marks = '^'.repeat(Math.max(1, Math.min(end - column, room)))
  return [
    ...(line > 1 ? [show(line - 1)] : []),
    show(line),
    `  ${' '.repeat(width)} │ ${' '.repeat(column - 1 - from)}${marks}`,
  ]
}

// Keys as in `looksLikeSecret`, searched in the text, because the file may not be YAML at all.
const SECRET_TEXT = /((?:_KEY|_SECRET|_TOKEN|PASSWORD)["']?\s*:\s*)(\S.*)$/i

function hideSecrets(text: string, line: number, secrets: readonly Problem[]): string {
  let hidden = text.replace(
    SECRET_TEXT,
    (_, key: string, value: string) => key + '•'.repeat(value.length),
  )
  for (const secret of secrets) {
    if (line < secret.line || line > secret.end_line) continue
    const from = line === secret.line ? secret.column - 1 : 0
    const to = line === secret.end_line ? secret.end_column - 1 : hidden.length
    hidden = hidden.slice(0, from) + '•'.repeat(Math.max(0, to - from)) + hidden.slice(to)
  }
  return hidden
}

/** Undefined if the file has the section of the recipe. */
export function sectionProblem(
  file: ServiceFile,
  recipe: Recipe,
  environmentIdentifier: string,
  inherited: boolean,
): string | undefined {
  if (file[recipe]) return undefined
  const has = (['docker', 'manual'] as const).filter((section) => file[section])
  const from = inherited ? ' (project default)' : ''
  return (
    `${FILE_NAME} has no '${recipe}:' section, but ${environmentIdentifier} uses the ` +
    `${recipe} recipe${from}. It has: ${has.join(', ')}.`
  )
}

/** Names that users give the file by mistake, in the order to look for them. */
export const MISTAKEN_NAMES = ['.service.yaml', 'service.yml', 'service.yaml'] as const

export function missingFileMessage(facts: {
  branch: string
  commit: string
  found?: string
}): string {
  const where = `${withoutControls(facts.branch)} at ${facts.commit.slice(0, 7)}`
  const todo = facts.found
    ? `Found ${withoutControls(facts.found)}; rename it.`
    : 'Add one with: berth config init'
  return `${FILE_NAME} was not found in the root of ${where}. ${todo}`
}
