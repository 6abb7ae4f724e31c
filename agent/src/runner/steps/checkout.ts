// Writes the files of the fetched commit (`unpack`), for either recipe.
import { SERVICE_FILE, STEPS } from '@berth/shared'
import { FILE_NAME, readServiceFile } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { ensureFolder, handOver, removeTree } from '../../machine/files.ts'
import { checkOut, GitError, readBlob, type TreeEntry } from '../../machine/git/git.ts'
import { type Attempt, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { recipeOf } from '../recipe.ts'
import { gitContext } from './fetch.ts'

function warn(attempt: Attempt, code: string, message: string): void {
  attempt.output.say(`Warning: ${message}`)
  attempt.report.warning(code, message, 'unpack')
}

/** The file with the lines of its Procfile, if it names one. */
export async function readWithProcfile(attempt: Attempt, source: Buffer) {
  const read = readServiceFile(source)
  const name = read.file?.manual?.procfile
  if (!name) return read
  const entry = need(attempt, 'tree').root.find(({ path }) => path === name)
  const isThere = entry !== undefined && isReadable(entry)
  const text = isThere ? (await sourceOf(attempt, name)).toString('utf8') : null
  return readServiceFile(source, FILE_NAME, { procfile: text })
}

/** A file of the root; empty when it is missing or not a regular file. */
const sourceOf = async (attempt: Attempt, name: string): Promise<Buffer> => {
  const entry = need(attempt, 'tree').root.find(({ path }) => path === name)
  if (!entry || !isReadable(entry)) return Buffer.alloc(0)
  return readBlob(gitContext(attempt), entry.object, SERVICE_FILE.bytes)
}

const isReadable = ({ mode, size }: TreeEntry): boolean =>
  (mode === '100644' || mode === '100755') && size <= SERVICE_FILE.bytes

/** Drops a copy that only now turns out to be broken, because only a new one helps. */
async function explainUnpack(attempt: Attempt, error: unknown): Promise<unknown> {
  attempt.interruption.throwIfFired()
  if (!(error instanceof GitError) || error.failure.trouble !== 'damaged') return error
  await removeTree(attempt.paths.repository)
  return new StepFailure(
    FailureCode.CLONE_FAILED,
    'The local copy of the repository was damaged and has been removed. Deploy again.',
  )
}

/** Reads concurrently what later steps need. */
async function writeFiles(attempt: Attempt, sha: string): Promise<{ attributes: Buffer }> {
  const { paths, releaseDir } = attempt
  const recipe = recipeOf(attempt)
  recipe.prepareFolders(attempt)
  await Promise.all([removeTree(releaseDir), removeTree(paths.checkout)])
  const context = gitContext(attempt)
  ensureFolder(paths.checkout, 0o700, context.account)
  const [attributes, source] = await Promise.all([
    sourceOf(attempt, '.gitattributes'),
    sourceOf(attempt, FILE_NAME),
    checkOut(context, sha, paths.checkout),
  ])
  await handOver(paths.checkout, releaseDir, recipe.releaseOwner(attempt))
  attempt.results.source = source
  return { attributes }
}

/** For a rollback: the release of an earlier deployment of the same commit, which needs no unpacking. */
async function findKept(attempt: Attempt): Promise<number | undefined> {
  const { kind } = attempt.spec
  const isAsked = kind.case === 'deploy' && kind.value.reuseRelease
  if (!isAsked || kind.value.noCache || kind.value.fresh) return undefined
  const recipe = recipeOf(attempt)
  if (!recipe.findKeptRelease) return undefined
  const source = await sourceOf(attempt, FILE_NAME)
  const { file } = await readWithProcfile(attempt, source)
  const found = file && recipe.findKeptRelease(attempt, file)
  if (found !== undefined) attempt.results.source = source
  return found
}

export async function unpack(attempt: Attempt): Promise<void> {
  const { sha } = need(attempt, 'commit')
  const { tree } = attempt.results
  if (!tree || tree.files > STEPS.repositoryFiles) {
    const bound = STEPS.repositoryFiles.toLocaleString('en-US')
    throw new StepFailure(
      FailureCode.CLONE_FAILED,
      `The repository holds more than ${bound} files.`,
    )
  }
  if (tree.bytes > STEPS.repositoryBytes) {
    throw new StepFailure(
      FailureCode.CLONE_FAILED,
      `The files of the commit are larger than ${STEPS.repositoryBytes / 1_024 ** 3} GiB.`,
    )
  }
  const kept = await findKept(attempt)
  if (kept !== undefined) {
    attempt.results.reused = kept
    return attempt.output.say(
      `Release ${kept} of this commit is kept and used as it is: the deploy steps do not run again.`,
    )
  }
  const { attributes } = await writeFiles(attempt, sha).catch(async (error) => {
    throw await explainUnpack(attempt, error)
  })
  if (tree.submodules.length > 0) {
    const names = tree.submodules.slice(0, 5).join(', ')
    warn(attempt, 'submodules_skipped', `submodules are not fetched: ${names}.`)
  }
  if (/\bfilter=lfs\b/.test(attributes.toString('utf8'))) {
    warn(attempt, 'lfs_skipped', 'files of Git LFS are not fetched; their pointers are deployed.')
  }
  attempt.output.say(`${tree.files} files unpacked.`)
}
