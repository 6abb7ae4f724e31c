// Fetches the commit from the forge (`fetch`). May begin before its step, concurrently with checks that usually pass;
// its output is held back until the step is reported, and a caller that gives up stops it and waits for its end.
// Creates nothing but empty folders and fetched objects.
import { mkdirSync } from 'node:fs'
import {
  type Checked,
  checkCommit,
  checkKnownHosts,
  checkRef,
  checkRepositoryUrl,
  REPOSITORY,
  type RepositoryAddress,
  STEPS,
  shortRef,
} from '@berth/shared'
import { FailureCode, LogSource } from '@berth/shared/wire'
import { ensureFolder, ensureGitFolders, removeTree } from '../../machine/files.ts'
import { isDiskFull } from '../../machine/git/failure.ts'
import {
  breakLocks,
  type CommitFacts,
  fetchCommit,
  type GitContext,
  GitError,
  hasRepository,
  makeRepository,
  readCommit,
  readTree,
  type TreeFacts,
} from '../../machine/git/git.ts'
import { withGitSession } from '../../machine/git/session.ts'
import type { Account } from '../../machine/process/confinement.ts'
import { dial } from '../../machine/process/probes.ts'
import {
  AccountError,
  ensureAccount,
  findClosedFolder,
  gitAccountName,
  isRoot,
} from '../../machine/users/users.ts'
import type { Attempt } from '../attempt.ts'
import { missing, StepFailure } from '../failure.ts'
import { PartKey } from '../parts.ts'
import { recipeOf } from '../recipe.ts'

export const gitContext = (attempt: Attempt): GitContext => ({
  account: attempt.results.gitAccount ?? undefined,
  attemptId: attempt.assignment.attemptId,
  repository: attempt.paths.repository,
  signal: attempt.interruption.signal,
})

/** Where git keeps this deployment's commit. */
export const deploymentRef = (taskId: number): string => `refs/berth/${taskId}`

/**
 * Neither root nor the environment's account: git reads nothing that an environment can write, and no environment can
 * read git's keys.
 */
async function gitAccount(attempt: Attempt): Promise<Account | undefined> {
  const { paths, settings } = attempt
  const recipe = recipeOf(attempt).name
  const name = gitAccountName(settings)
  let account: Account | undefined
  if (isRoot()) {
    try {
      account = (await ensureAccount(name, settings.stateDir, 'Berth git')).account
    } catch (error) {
      if (error instanceof AccountError) throw missing(attempt, recipe, error.message)
      throw error
    }
  }
  await ensureGitFolders(paths, account)
  const closed = await findClosedFolder(account, paths.repository)
  if (closed) {
    const why = `account ${account?.name} cannot enter ${closed}. Allow it: chmod o+x ${closed}`
    throw missing(attempt, recipe, why)
  }
  return account
}

function must<T>(checked: Checked<T>, code: FailureCode = FailureCode.CLONE_FAILED): T {
  if (checked.ok) return checked.value
  throw new StepFailure(code, checked.problem)
}

/** git itself would wait minutes for a forge that does not answer over https. */
async function reachHost(address: RepositoryAddress, signal: AbortSignal): Promise<void> {
  if (address.transport !== 'https' && address.transport !== 'http') return
  const { hostname: host, port } = new URL(address.url)
  const number = Number(port) || (address.transport === 'https' ? 443 : 80)
  const trouble = await dial(host.replaceAll(/[[\]]/g, ''), number, STEPS.connectMs, signal)
  if (!trouble) return
  const sentence =
    trouble === 'ETIMEDOUT'
      ? `No answer from ${address.host} in ${STEPS.connectMs / 1_000} s.`
      : trouble === 'ENOTFOUND' || trouble === 'EAI_AGAIN'
        ? `The name ${address.host} cannot be resolved on this server.`
        : `${address.host} cannot be reached from this server (${trouble}).`
  throw new StepFailure(FailureCode.CLONE_FAILED, sentence)
}

/** Receives the output of a fetch; buffers it, up to a bound, until its step has begun. */
interface Voice {
  say: (text: string) => void
  write: (chunk: Buffer) => void
  release: () => void
}

function holdVoice({ output }: Attempt): Voice {
  let held: (() => void)[] | undefined = []
  let bytes = 0
  const pass = (size: number, act: () => void): void => {
    if (held) bytes += size
    if (!held) act()
    else if (bytes <= REPOSITORY.errorBytes) held.push(act)
  }
  return {
    say: (text) => pass(text.length, () => output.say(text)),
    write: (chunk) => pass(chunk.length, () => output.write(LogSource.STDERR, chunk)),
    release: () => {
      for (const act of held ?? []) act()
      held = undefined
    },
  }
}

async function newRepository(context: GitContext): Promise<void> {
  await removeTree(context.repository)
  ensureFolder(context.repository, 0o700, context.account)
  if (!(await makeRepository(context))) throw new Error('the repository folder cannot be used')
}

/** Recreates a local copy that git can no longer use; everything in it can be fetched again. */
async function withRepository<T>(
  context: GitContext,
  voice: Voice,
  fetch: () => Promise<T>,
): Promise<T> {
  if (!hasRepository(context)) await newRepository(context)
  breakLocks(context)
  try {
    return await fetch()
  } catch (error) {
    if (!(error instanceof GitError) || error.failure.trouble !== 'damaged') throw error
  }
  voice.say('The local copy of the repository is damaged and is made anew.')
  await newRepository(context)
  return fetch()
}

interface Source {
  address: RepositoryAddress
  ref: string
  commit: string | undefined
  knownHosts: string[]
}

function sourceOf({ spec, settings }: Attempt): Source {
  const source = spec.repository
  const address = must(
    checkRepositoryUrl(source?.url ?? '', {
      allowFile: settings.gitFolders === true,
      allowLoopbackHttp: settings.development,
    }),
  )
  return {
    address,
    ref: must(checkRef(source?.ref ?? '')),
    commit: source?.commitSha
      ? must(checkCommit(source.commitSha), FailureCode.COMMIT_NOT_FOUND)
      : undefined,
    knownHosts: must(checkKnownHosts(source?.knownHosts ?? [])),
  }
}

interface Fetched {
  account: Account | undefined
  ref: string
  commit: CommitFacts
  /** Undefined: the commit holds more names than allowed. */
  tree: TreeFacts | undefined
}

async function fetchFrom(attempt: Attempt, voice: Voice, signal: AbortSignal): Promise<Fetched> {
  const { spec, settings, assignment, paths, scratch } = attempt
  const account = await gitAccount(attempt)
  const { address, ref, commit, knownHosts } = sourceOf(attempt)
  const from = address.host || address.url
  voice.say(`Fetching ${commit ? `${commit.slice(0, 12)} of ` : ''}${shortRef(ref)} from ${from}.`)
  await reachHost(address, signal)
  const { attemptId, taskId } = assignment
  const context: GitContext = { account, attemptId, repository: paths.repository, signal }
  mkdirSync(scratch, { recursive: true, mode: 0o711 })
  const request = {
    ...context,
    settings,
    address,
    knownHosts,
    scratch,
    projectId: spec.environment?.projectId ?? 0,
    deployKey: attempt.secrets.deployKey,
    onText: voice.write,
  }
  const target = deploymentRef(taskId)
  const [found, tree] = await withRepository(context, voice, async () => {
    const isThere = await withGitSession(request, (session) =>
      fetchCommit(session, ref, commit, target),
    )
    return isThere ? Promise.all([readCommit(context, target), readTree(context, target)]) : []
  })
  if (!found || (commit && found.sha !== commit)) {
    throw new StepFailure(
      FailureCode.COMMIT_NOT_FOUND,
      `Commit ${(commit ?? '').slice(0, 12)} is not on ${shortRef(ref)} any more (force-pushed?).`,
    )
  }
  return { account, ref, commit: found, tree }
}

function explainFetch(attempt: Attempt, error: unknown): unknown {
  attempt.interruption.throwIfFired()
  if (!(error instanceof GitError)) return error
  const code = isDiskFull(error.message) ? FailureCode.DISK_FULL : FailureCode.CLONE_FAILED
  return new StepFailure(code, error.message)
}

/** A fetch under way. */
interface Fetching {
  voice: Voice
  result: Promise<Fetched>
  /** Resolves when none of its processes run. */
  stop: () => Promise<void>
}

const FETCHING = new PartKey<Fetching>('fetching')

/** Begins the fetch, before its step where the recipe allows it; the step `fetch` awaits it. */
export const beginFetch = (attempt: Attempt): Fetching =>
  attempt.parts.open(FETCHING, () => startFetch(attempt))

export const stopFetch = async (attempt: Attempt): Promise<void> =>
  attempt.parts.find(FETCHING)?.stop()

function startFetch(attempt: Attempt): Fetching {
  const given = new AbortController()
  const voice = holdVoice(attempt)
  const signal = AbortSignal.any([attempt.interruption.signal, given.signal])
  const result = fetchFrom(attempt, voice, signal)
  const ended = result.then(
    () => undefined,
    () => undefined, // reported by the step
  )
  const stop = (): Promise<void> => {
    given.abort()
    return ended
  }
  return { voice, result, stop }
}

export async function fetchRepository(attempt: Attempt): Promise<void> {
  const { voice, result } = beginFetch(attempt)
  voice.release()
  const { account, ref, commit, tree } = await result.catch((error) => {
    throw explainFetch(attempt, error)
  })
  attempt.results.gitAccount = account ?? null
  attempt.results.commit = commit
  attempt.results.tree = tree
  attempt.report.commit(commit, ref)
  attempt.output.say(`Commit ${commit.sha.slice(0, 12)}: ${commit.subject}`)
}
