// Reads a source into a file or problems, in one call that never throws. Order: size and encoding, YAML, shape,
// meaning. A source that is not YAML is not checked further; all other problems are reported together.
import { SERVICE_FILE } from '../limits/limits.ts'
import { check } from './check.ts'
import { checkMeaning, checkProcesses } from './meaning.ts'
import { normalize } from './normalize.ts'
import { FILE_NAME, type Problem, type Report, shown, startReport } from './problem.ts'
import { mergeProcfile, readProcfile } from './procfile.ts'
import { serviceFileSchema } from './schema.ts'
import type { ServiceFile } from './service-file.ts'
import { childOf, entryOf, readTree, type TreeNode, textOf } from './yaml/tree.ts'

interface ReadFile {
  /** Undefined if there is any error. */
  file: ServiceFile | undefined
  problems: Problem[]
}

interface Beside {
  /** The text of the Procfile that the file names; null: there is none. Undefined: not known, so not checked. */
  procfile?: string | null | undefined
}

/** If `source` is the bytes of the file, its encoding is checked too. */
export function readServiceFile(
  source: string | Uint8Array,
  fileName: string = FILE_NAME,
  { procfile }: Beside = {},
): ReadFile {
  const text = decode(source)
  const report = startReport(text ?? '', fileName)
  if (text === undefined) {
    const message = 'the file is not UTF-8 text; save it as UTF-8'
    report.error(START, [], 'invalid_yaml', message)
    return { file: undefined, problems: report.problems() }
  }
  const file = readText(text, report, procfile)
  const problems = report.problems()
  const isWrong = problems.some(({ severity }) => severity === 'error')
  return { file: isWrong ? undefined : file, problems }
}

const START = { start: 0, end: 0 }

/** Removes a byte order mark, so that columns are right. */
function decode(source: string | Uint8Array): string | undefined {
  try {
    return typeof source === 'string'
      ? source.replace(/^\ufeff/, '')
      : new TextDecoder('utf-8', { fatal: true }).decode(source)
  } catch {
    return undefined
  }
}

function readText(
  source: string,
  report: Report,
  procfile: Beside['procfile'],
): ServiceFile | undefined {
  const bytes = new TextEncoder().encode(source).length
  if (bytes > SERVICE_FILE.bytes) {
    const message =
      `the file has ${bytes.toLocaleString('en-US')} bytes; at most ` +
      `${SERVICE_FILE.bytes.toLocaleString('en-US')} are read`
    report.error(START, [], 'too_complex', message)
    return undefined
  }
  const root = readTree(source, report)
  if (!root) return undefined
  if (root.kind === 'scalar' && root.value === null) {
    report.error(START, [], 'missing_key', "the file is empty; it needs 'docker' or 'manual'")
    return undefined
  }
  const written = check(serviceFileSchema, root, report)
  checkMeaning(root, report)
  const named = entryOf(childOf(root, 'manual'), 'procfile')
  const name = textOf(named?.value)
  const lines =
    name !== undefined && typeof procfile === 'string' ? readProcfile(procfile) : undefined
  const failed = (what: string): void =>
    report.error(named?.value.span ?? START, ['manual', 'procfile'], 'invalid_value', what)
  if (name !== undefined && procfile === null) {
    failed(
      `manual.procfile names ${shown(name)}, which is not a file in the root of the repository`,
    )
  }
  for (const problem of lines?.problems ?? []) failed(`${shown(name ?? '')} ${problem}`)
  if (!named || lines) {
    const names = new Set(lines?.commands.keys())
    checkProcesses(root, report, { names, procfile: name })
  }
  const parsed = serviceFileSchema.safeParse(written)
  if (parsed.success) {
    const merged = lines && mergeProcfile(parsed.data, lines)
    if (merged?.problem) failed(`${shown(name ?? '')} ${merged.problem}`)
    const places = positionsIn(root, report)
    return normalize(merged?.file ?? parsed.data, places, lines?.release ?? null)
  }
  if (!report.problems().some(({ severity }) => severity === 'error')) {
    // The walk and the schema disagree: a defect of ours, and the file must not be deployed.
    report.error(START, [], 'invalid_value', 'the file could not be understood')
  }
  return undefined
}

const positionsIn =
  (root: TreeNode, report: Report) =>
  (section: string, name: string): ReturnType<Report['rangeOf']> => {
    const service = entryOf(childOf(childOf(root, section), 'services'), name)
    const address = entryOf(service?.value, 'domain') ?? entryOf(service?.value, 'path')
    return report.rangeOf(address?.value.span ?? service?.keySpan ?? START)
  }
