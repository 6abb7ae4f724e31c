// The only way git is called: argv only, as an account that runs nothing else, in folders that no environment can
// enter, without hooks, helpers, prompts, filters, submodules or user configuration, and with user input only after
// `--end-of-options`. Callers check addresses, refs and commits with shared/src/repository.ts.
import { lstatSync, rmSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { RepositoryAddress } from '@berth/shared'
import { REPOSITORY, STEPS } from '@berth/shared'
import { PROCESSES } from '../../limits/machine.ts'
import { type Account, dropRights } from '../process/confinement.ts'
import { locateProgram, type ProgramResult, runProgram, SYSTEM_PATH } from '../process/programs.ts'
import { explainGit, type GitFailure } from './failure.ts'

/** Everything one fetch needs; made by session.ts. */
export interface GitSession {
  account: Account | undefined
  /** The attempt that git runs for; identifies a git that outlives its runner. */
  attemptId: string
  /** Bare repository of the environment. */
  repository: string
  address: RepositoryAddress
  /** Complete environment of git, with the settings of our ssh program. */
  env: Record<string, string>
  signal: AbortSignal
  onText: (chunk: Buffer) => void
}

export type GitContext = Pick<GitSession, 'account' | 'attemptId' | 'repository' | 'signal'>

export class GitError extends Error {
  override readonly name = 'GitError'
  readonly failure: GitFailure
  constructor(failure: GitFailure) {
    super(failure.message)
    this.failure = failure
  }
}

const SAFE_OPTIONS = [
  'core.hooksPath=/dev/null',
  'protocol.ext.allow=never',
  'http.followRedirects=false',
  'credential.helper=',
  'core.fsmonitor=false',
  'fetch.recurseSubmodules=false',
  'submodule.recurse=false',
  'core.attributesFile=/dev/null',
  'core.excludesFile=/dev/null',
  'gc.auto=0',
  'core.askPass=',
  'maintenance.auto=false',
  // gives up on a stalled forge long before the step's timeout
  'http.lowSpeedLimit=1',
  'http.lowSpeedTime=60',
]

/** Local calls use no network; a fetch adds what it needs. */
export const gitEnvironment = (home: string): Record<string, string> => ({
  PATH: SYSTEM_PATH,
  HOME: home,
  LC_ALL: 'C',
  GIT_TERMINAL_PROMPT: '0',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_ATTR_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_LFS_SKIP_SMUDGE: '1',
  GIT_ALLOW_PROTOCOL: 'none',
})

function gitArgv(context: Pick<GitContext, 'account' | 'repository'>, args: string[]): string[] {
  const prlimit = locateProgram('prlimit')
  const bounded = prlimit ? [prlimit, `--fsize=${STEPS.repositoryBytes}`, '--'] : []
  const file = 'protocol.file.allow=never'
  const options = [...SAFE_OPTIONS, file].flatMap((option) => ['-c', option])
  const git = locateProgram('git') ?? 'git'
  return [
    ...bounded,
    ...dropRights(context.account),
    git,
    ...options,
    '-C',
    context.repository,
    ...args,
  ]
}

const markOf = ({ attemptId }: Pick<GitContext, 'attemptId'>): Record<string, string> => ({
  BERTH_ATTEMPT_ID: attemptId,
})

interface LocalOptions {
  env?: Record<string, string>
  timeoutMs?: number
  maxBytes?: number
}

/** A call that reads or writes the repository only. */
export function callGit(
  context: GitContext,
  args: string[],
  options: LocalOptions = {},
): Promise<ProgramResult> {
  // explicit: git would otherwise search the parent folders for a usable repository
  const where = { GIT_DIR: context.repository }
  return runProgram(gitArgv(context, args), {
    env: { ...gitEnvironment('/nonexistent'), ...where, ...markOf(context), ...options.env },
    timeoutMs: options.timeoutMs ?? PROCESSES.programMs,
    maxBytes: options.maxBytes ?? PROCESSES.programBytes,
    signal: context.signal,
  })
}

async function mustCall(
  context: GitContext,
  args: string[],
  options?: LocalOptions,
): Promise<Buffer> {
  const result = await callGit(context, args, options)
  if (result.code === 0) return result.stdout
  throw localFailure(args, result)
}

function localFailure([name]: string[], { stderr, signal, code }: ProgramResult): GitError {
  const trouble = isDamage(stderr) ? 'damaged' : 'other'
  const said = stderr.trim().slice(0, 300) || signal || code
  return new GitError({ trouble, message: `git ${name} failed: ${said}` })
}

const isDamage = (stderr: string): boolean => explainGit(stderr, '').trouble === 'damaged'

/** The index of `checkOut`, which describes one folder only. */
const CHECKOUT_INDEX = 'checkout-index'

/**
 * One attempt at a time uses the repository, so a lock was left by a killed git and would stay forever. Removes only
 * files directly in the folder, which root made; any other lock makes the repository count as damaged.
 */
export function breakLocks({ repository }: Pick<GitContext, 'repository'>): void {
  for (const name of ['shallow', 'packed-refs', 'config', 'HEAD', CHECKOUT_INDEX]) {
    try {
      unlinkSync(join(repository, `${name}.lock`))
    } catch {
      // absent; if it cannot be removed, git reports that
    }
  }
}

/** Whether a repository was made here; the first call of git shows whether it is usable. */
export const hasRepository = ({ repository }: Pick<GitContext, 'repository'>): boolean =>
  lstatSync(join(repository, 'HEAD'), { throwIfNoEntry: false }) !== undefined

/** Makes a bare repository in an empty folder; false when git fails. */
export async function makeRepository(context: GitContext): Promise<boolean> {
  const made = await callGit(context, [
    'init',
    '--quiet',
    '--bare',
    '--template=',
    context.repository,
  ])
  return made.code === 0
}

async function fetchOnce(session: GitSession, source: string, target: string, depth: number) {
  const args = ['fetch', '--no-tags', `--depth=${depth}`, '--force', '--no-write-fetch-head']
  args.push('--end-of-options', session.address.url, `+${source}:${target}`)
  let argv = gitArgv(session, args)
  if (session.address.transport === 'file') {
    argv = argv.map((arg) =>
      arg === 'protocol.file.allow=never' ? 'protocol.file.allow=always' : arg,
    )
  }
  const result = await runProgram(argv, {
    env: { ...session.env, ...markOf(session), GIT_DIR: session.repository },
    timeoutMs: STEPS.fetchMs,
    maxBytes: REPOSITORY.errorBytes,
    signal: session.signal,
    onStderr: session.onText,
  })
  if (result.code !== 0) return explainFetch(session, result)
  // git continues without objects that it finds broken here, as long as it does not need them itself
  const said = explainGit(result.stderr, session.address.host)
  const isHere = said.trouble === 'damaged' && result.stderr.includes(session.repository)
  return isHere ? said : undefined
}

function explainFetch(session: GitSession, result: ProgramResult): GitFailure {
  const { host } = session.address
  if (result.timedOut) {
    const minutes = STEPS.fetchMs / 60_000
    return { trouble: 'other', message: `Fetching from ${host} took longer than ${minutes} min.` }
  }
  const isTooBig =
    result.signal === 'SIGXFSZ' || /File too large|SIGXFSZ|signal 25/i.test(result.stderr)
  if (isTooBig) {
    const size = STEPS.repositoryBytes / 1_024 ** 3
    return { trouble: 'other', message: `The repository is larger than ${size} GiB.` }
  }
  return explainGit(result.stderr, host)
}

async function resolveCommit(context: GitContext, name: string): Promise<string | undefined> {
  const found = await callGit(context, ['rev-parse', '--verify', '--quiet', `${name}^{commit}`])
  return found.code === 0 ? found.stdout.toString().trim() : undefined
}

const isAncestor = async (context: GitContext, commit: string, of: string): Promise<boolean> =>
  (await callGit(context, ['merge-base', '--is-ancestor', commit, of])).code === 0

/** The commit is at `target` afterwards. False when the repository was reached, but the commit is not on the ref. */
export async function fetchCommit(
  session: GitSession,
  ref: string,
  commit: string | undefined,
  target: string,
): Promise<boolean> {
  if (!commit) {
    const failure = await fetchOnce(session, ref, target, 1)
    if (failure) throw new GitError(failure)
    return true
  }
  const byHash = await fetchOnce(session, commit, target, 1)
  if (!byHash) return true
  if (byHash.trouble === 'other' || byHash.trouble === 'damaged') throw new GitError(byHash)
  for (const depth of REPOSITORY.depths) {
    const failure = await fetchOnce(session, ref, target, depth)
    if (failure?.trouble === 'missing_ref') return false
    if (failure) throw new GitError(failure)
    if ((await resolveCommit(session, commit)) && (await isAncestor(session, commit, target))) {
      await mustCall(session, ['update-ref', target, commit])
      return true
    }
  }
  return false
}

export interface CommitFacts {
  sha: string
  author: string
  committedAt: Date
  subject: string
}

export async function readCommit(context: GitContext, name: string): Promise<CommitFacts> {
  const format = '--format=%H%x00%an%x00%ct%x00%s'
  const text = (
    await mustCall(context, ['log', '-1', '--no-show-signature', '--no-mailmap', format, name])
  ).toString()
  const [sha = '', author = '', seconds = '0', subject = ''] = text.split('\0')
  return { sha, author, committedAt: new Date(Number(seconds) * 1_000), subject: subject.trim() }
}

export interface TreeEntry {
  mode: string
  object: string
  size: number
  path: string
}

export interface TreeFacts {
  files: number
  bytes: number
  submodules: string[]
  /** Files in the root of the repository. */
  root: TreeEntry[]
}

/** Undefined when the commit contains more names than the bound allows. */
export async function readTree(context: GitContext, name: string): Promise<TreeFacts | undefined> {
  const args = ['ls-tree', '-r', '-l', '-z', '--full-tree', name]
  const listed = await callGit(context, args, {
    maxBytes: REPOSITORY.listBytes,
    timeoutMs: STEPS.fetchMs,
  })
  if (listed.overflow) return undefined
  // for a broken object git prints BAD as size, and succeeds
  if (listed.code !== 0 || isDamage(listed.stderr)) throw localFailure(args, listed)
  const facts: TreeFacts = { files: 0, bytes: 0, submodules: [], root: [] }
  for (const line of listed.stdout.toString('utf8').split('\0')) {
    const tab = line.indexOf('\t')
    if (tab < 0) continue
    const [mode = '', type, object = '', size] = line.slice(0, tab).split(/ +/)
    const path = line.slice(tab + 1)
    if (type === 'commit') facts.submodules.push(path)
    facts.files += 1
    facts.bytes += Number(size) || 0
    if (!path.includes('/')) facts.root.push({ mode, object, size: Number(size) || 0, path })
  }
  return facts
}

export const readBlob = (context: GitContext, object: string, maxBytes: number): Promise<Buffer> =>
  mustCall(context, ['cat-file', 'blob', object], { maxBytes })

/** Puts the files of a commit into an empty folder, without `.git`. */
export async function checkOut(context: GitContext, sha: string, folder: string): Promise<void> {
  const env = {
    GIT_WORK_TREE: folder,
    GIT_INDEX_FILE: join(context.repository, CHECKOUT_INDEX),
  }
  // the index of an earlier checkout would list files that this folder does not have
  rmSync(env.GIT_INDEX_FILE, { force: true })
  await mustCall(context, ['read-tree', '--reset', '-u', sha], { env, timeoutMs: STEPS.fetchMs })
}

/** Removes the refs of deployments that are gone, and repacks when there are many packs or loose objects. */
export async function tidyRepository(
  context: GitContext,
  keep: ReadonlySet<string>,
): Promise<void> {
  const refs = await mustCall(context, ['for-each-ref', '--format=%(refname)', 'refs/berth'])
  for (const ref of refs.toString().split('\n').filter(Boolean)) {
    if (!keep.has(ref)) await mustCall(context, ['update-ref', '-d', ref])
  }
  const counted = (await mustCall(context, ['count-objects', '-v'])).toString()
  const count = (what: string): number =>
    Number(new RegExp(`^${what}: ([0-9]+)$`, 'm').exec(counted)?.[1] ?? 0)
  // small fetches come without a pack and leave loose objects
  if (count('packs') > REPOSITORY.packs || count('count') > REPOSITORY.looseObjects) {
    await mustCall(context, ['gc', '--quiet', '--prune=now'], { timeoutMs: STEPS.fetchMs })
  }
}
