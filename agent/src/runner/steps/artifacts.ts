// Collects the files that an action left, after its command succeeded: matches them below its folder, copies them to
// the agent's store, and reports them when every byte is on disk. Offers all of them, or none when a copy fails.
import { posix } from 'node:path'
import { ARTIFACTS } from '@berth/shared'
import type { Action } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { CopyFailed, collectFiles, describeLimit } from '../../files/collect.ts'
import { ArtifactIntake } from '../../files/store.ts'
import type { ArtifactRow } from '../../journal/artifact-table.ts'
import { containerFolder, readArchive } from '../../machine/docker/archive.ts'
import { inspectContainer } from '../../machine/docker/containers.ts'
import { EngineError } from '../../machine/docker/engine-error.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { Interrupted, StepFailure } from '../failure.ts'
import { readPatterns, TooManyPatterns, whyUnfit } from '../plan/artifact-patterns.ts'
import { type DockerPlan, isDockerPlan } from '../plan/plan.ts'
import { actionOf, containerOf } from './action.ts'
import { runInLast } from './destroy.ts'

type Declared = NonNullable<Action['artifacts']>

const failed = (message: string): StepFailure =>
  new StepFailure(FailureCode.ARTIFACTS_FAILED, message)

/** Names the first few in the log and counts all. */
class Skipped {
  readonly #attempt: Attempt
  #count = 0

  constructor(attempt: Attempt) {
    this.#attempt = attempt
  }

  skipped(path: string, why: string): void {
    this.#count += 1
    if (this.#count > ARTIFACTS.skippedNamed) return
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a name may be anything
    const shown = path.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, '?')
    this.#attempt.output.say(`Skipped ${shown}: ${why}.`)
  }

  print(): void {
    const more = this.#count - ARTIFACTS.skippedNamed
    if (more > 0) this.#attempt.output.say(`${more} more were skipped.`)
  }
}

export async function collectArtifacts(attempt: Attempt): Promise<void> {
  const action = actionOf(attempt)
  const { artifacts: declared } = action
  if (!declared) return
  const { settings, assignment, spec, ledger } = attempt
  const bounds = {
    files: spec.limits?.maxArtifactFiles || ARTIFACTS.files,
    bytes: Number(spec.limits?.maxArtifactBytes ?? 0n) || ARTIFACTS.bytes,
  }
  const intake = new ArtifactIntake(settings, assignment, bounds)
  let isKept = false
  try {
    await copyAll(attempt, action, declared, intake, bounds)
    attempt.interruption.throwIfFired()
    const expiresAt = Date.now() + declared.retentionMs
    const rows = await intake.commit(ledger, expiresAt)
    isKept = rows.length > 0
    report(attempt, rows, declared, intake, bounds)
  } catch (error) {
    throw asCopyFailure(attempt, error)
  } finally {
    if (!isKept) await intake.discard()
  }
}

function asCopyFailure(attempt: Attempt, error: unknown): unknown {
  if (attempt.interruption.reason) return new Interrupted('The collection was interrupted.')
  if (error instanceof CopyFailed || error instanceof TooManyPatterns) return failed(error.message)
  return error
}

async function copyAll(
  attempt: Attempt,
  action: Action,
  declared: Declared,
  intake: ArtifactIntake,
  bounds: { files: number; bytes: number },
): Promise<void> {
  const notes = new Skipped(attempt)
  const { last } = attempt.results
  if (isDockerPlan(last)) await copyFromContainer(attempt, action, declared, intake, last, notes)
  else {
    await runInLast(attempt, ({ releaseDir }) =>
      collectFiles(
        {
          root: releaseDir,
          dir: posix
            .normalize(action.dir ?? '.')
            .split('/')
            .filter(isName),
          patterns: declared.paths,
          account: accountOf(attempt) ?? null,
          ...bounds,
        },
        intake,
        notes,
        {
          marker: { BERTH_ATTEMPT_ID: attempt.assignment.attemptId },
          signal: attempt.interruption.signal,
        },
      ),
    )
  }
  notes.print()
}

const isName = (segment: string): boolean => segment !== '' && segment !== '.'

async function copyFromContainer(
  attempt: Attempt,
  action: Action,
  declared: Declared,
  intake: ArtifactIntake,
  last: DockerPlan,
  notes: Skipped,
): Promise<void> {
  const { engine } = dockerOf(attempt)
  const { signal } = attempt.interruption
  const row = await containerOf(engine, last, action)
  if (!row) throw failed(`${action.service ?? 'Its service'} does not run.`)
  const patterns = readPatterns(declared.paths)
  try {
    const folder = await containerFolder(engine, row.containerId, action.dir)
    let passed = 0
    for (const root of patterns.roots) {
      for await (const file of readArchive(engine, row.containerId, folder, root, signal)) {
        const path = file.path.join('/')
        const isWanted = patterns.matches(file.path)
        const unfit = file.kind === 'file' ? whyUnfit(path) : WHY[file.kind]
        const isOver = isWanted && !unfit && !(await take(intake, path, file))
        if (isWanted && unfit) notes.skipped(path, unfit)
        if (isWanted && !unfit && !isOver) continue
        // unwanted bytes must be read past; a sparse file of a terabyte would take hours
        const isLarge = isOver && file.size > ARTIFACTS.passedFileBytes
        if (!isLarge && passed + file.size <= ARTIFACTS.passedBytes) passed += file.size
        else {
          intake.leaveOut(firstUnseen(file.path, root), isOver ? 'bytes' : 'passed')
          break
        }
      }
    }
  } catch (error) {
    if (error instanceof EngineError && error.kind !== 'disk_full') {
      const message = `${row.service} was stopped while its files were copied.`
      if (!(await isThere(attempt, row.containerId))) throw failed(message)
    }
    throw error
  }
  if (!(await isThere(attempt, row.containerId))) {
    throw failed(`${row.service} was stopped while its files were copied.`)
  }
}

const WHY = { link: 'a link', other: 'not a regular file' } as const

const isThere = async (attempt: Attempt, id: string): Promise<boolean> =>
  (await inspectContainer(dockerOf(attempt).engine, id))?.state === 'running'

/**
 * The first name that may follow when a stream is abandoned at a file. Folders arrive by name, one complete folder
 * after the other, so smaller names than those seen can only be beside a folder on the path.
 */
function firstUnseen(path: readonly string[], root: readonly string[]): string {
  return path.slice(0, Math.min(path.length, root.length + 1)).join('/')
}

/** False: the file exceeds the limits and is not read. */
async function take(
  intake: ArtifactIntake,
  path: string,
  file: { size: number; modifiedAt: number; bytes: AsyncIterable<Buffer> },
): Promise<boolean> {
  const incoming = intake.begin(path, file.size, file.modifiedAt)
  if (!incoming) return false
  let isOpen = true
  try {
    for await (const chunk of file.bytes) incoming.write(chunk)
    isOpen = false
    incoming.finish()
    return true
  } finally {
    if (isOpen) incoming.drop()
  }
}

const inMegabytes = (bytes: number): string =>
  bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`

/** Committed before it is reported, so that readers of the report can fetch it. */
function report(
  attempt: Attempt,
  rows: ArtifactRow[],
  declared: Declared,
  intake: ArtifactIntake,
  bounds: { files: number; bytes: number },
): void {
  const { output, report: reporter } = attempt
  const { firstLeftOut } = intake
  for (const batch of batches(rows)) {
    reporter.artifacts(batch.map(toWire), firstLeftOut !== undefined)
  }
  if (firstLeftOut) {
    const limit = describeLimit(firstLeftOut.limit, bounds)
    const message = `More files matched than a task may keep (${limit}). Left out from ${firstLeftOut.path} on.`
    output.say(`Warning: ${message}`)
    reporter.warning('artifacts_truncated', message, 'artifacts')
  }
  if (rows.length > 0) {
    const until = new Date(rows[0]?.expiresAt ?? 0).toISOString()
    const files = rows.length === 1 ? '1 file' : `${rows.length} files`
    output.say(`Collected ${files}, ${inMegabytes(intake.bytes)}; kept until ${until}.`)
  } else if (!firstLeftOut) {
    const message = `No file matched ${declared.paths.join(', ')}.`
    output.say(`Warning: ${message}`)
    reporter.warning('no_artifact_matched', message, 'artifacts')
  }
}

const toWire = (row: ArtifactRow) => ({
  artifactId: row.id,
  relativePath: row.path,
  size: BigInt(row.size),
  sha256: row.sha256,
  modified: timestampFromMs(row.modifiedAt),
  expiresAt: timestampFromMs(row.expiresAt),
})

/** An event is limited in entries and bytes. */
function* batches(rows: ArtifactRow[]): Generator<ArtifactRow[]> {
  let batch: ArtifactRow[] = []
  let bytes = 0
  for (const row of rows) {
    const size = Buffer.byteLength(row.path) + 150
    if (batch.length >= ARTIFACTS.perEvent || bytes + size > ARTIFACTS.perEventBytes) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(row)
    bytes += size
  }
  if (batch.length > 0) yield batch
}
