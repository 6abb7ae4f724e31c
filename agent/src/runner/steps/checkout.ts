// Phase checkout: may this server do it (`admit`), as whom (`account`), and the repository's files (`fetch`,
// `unpack`). Every refusal is a sentence to act on; until `unpack` nothing but empty folders and fetched objects was
// made.
import { mkdirSync } from 'node:fs'
import { hostname } from 'node:os'
import {
  type Checked,
  checkCommit,
  checkKnownHosts,
  checkRef,
  checkRepositoryUrl,
  type RepositoryAddress,
  SERVICE_FILE,
  STEPS,
  shortRef,
} from '@berth/shared'
import { FILE_NAME } from '@berth/shared/service-file'
import { FailureCode, LogSource, Recipe } from '@berth/shared/wire'
import {
  dropForeignRepository,
  ensureDockerFolders,
  ensureEnvironmentFolders,
  ensureFolder,
  ensureLogFolder,
  removeTree,
} from '../../exec/files.ts'
import {
  checkOut,
  fetchCommit,
  type GitContext,
  GitError,
  hasRepository,
  makeRepository,
  readBlob,
  readCommit,
  readTree,
  type TreeEntry,
} from '../../exec/git.ts'
import { withGitSession } from '../../exec/git-session.ts'
import { dial } from '../../exec/probes.ts'
import { locateProgram } from '../../exec/programs.ts'
import { findWebGroup } from '../../exec/proxy/web-group.ts'
import { AccountError, ensureAccount, findClosedFolder, isRoot } from '../../exec/users.ts'
import { settleManual } from '../../housekeeping/settle-manual.ts'
import { isDiskFull } from '../../recipes/git-failure.ts'
import { ensureActivateProgram } from '../activation.ts'
import { type Attempt, accountOf, environmentName, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { requireProxy, routingOf } from '../routing.ts'
import { admitRoom } from './room.ts'
import { settleLeftovers } from './service-life.ts'

export const missing = (recipe: 'docker' | 'manual', why: string): StepFailure =>
  new StepFailure(
    FailureCode.CAPABILITY_MISSING,
    `Server ${hostname()} cannot run the ${recipe} recipe: ${why}`,
  )

/** What attempts that are over left behind goes before this one makes anything of its own. */
async function settleBefore(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output, found } = attempt
  // what the version before routed, this one will most likely route too; the rest is asked when the file was read
  const routed = found.last?.routes?.map(({ service }) => service) ?? []
  await requireProxy(attempt, [...new Set(routed)])
  const house = { edge: routingOf(attempt).edge, ledger, settings }
  for (const note of await settleManual(house, assignment)) output.say(note)
  await settleLeftovers(attempt)
}

export async function admit(attempt: Attempt): Promise<void> {
  const { spec, settings } = attempt
  if (spec.kind.case !== 'deploy' || spec.recipe !== Recipe.MANUAL) {
    throw new StepFailure(
      FailureCode.AGENT_OUTDATED,
      `The agent of server ${hostname()} does not know this kind of task. Update the agent.`,
    )
  }
  if (spec.environment?.untrusted) {
    throw missing(
      'manual',
      'commits of forks never run commands directly on a server. Use the docker recipe for them.',
    )
  }
  if (!isRoot() && !settings.development) {
    throw missing('manual', 'the agent does not run as root and may not create accounts.')
  }
  for (const name of ['git', ...(isRoot() ? ['setpriv', 'useradd'] : [])]) {
    if (!locateProgram(name)) throw missing('manual', `${name} is not installed.`)
  }
  await settleBefore(attempt)
  await admitRoom(attempt)
  const terminal = attempt.pty ? 'a terminal' : 'pipes (node-pty is not installed: no terminal)'
  attempt.output.say(`Server ${hostname()}: manual recipe, commands run with ${terminal}.`)
}

export async function prepareAccount(attempt: Attempt): Promise<void> {
  const { places, output } = attempt
  const name = environmentName(attempt)
  if (isRoot()) {
    try {
      const purpose = `Berth environment ${attempt.assignment.environmentId}`
      const { account, isNew } = await ensureAccount(name, places.dir, purpose)
      attempt.found.account = account
      output.say(isNew ? `Account ${name} was made.` : `Account ${name}.`)
    } catch (error) {
      if (error instanceof AccountError) throw missing('manual', error.message)
      throw error
    }
  } else {
    attempt.found.account = null
    output.say('Warning: without root, commands run as your own user and can do what you can.')
  }
  const account = accountOf(attempt)
  attempt.found.webGroup = (await findWebGroup(attempt.settings)) ?? null
  await dropForeignRepository(places, account)
  ensureEnvironmentFolders(places, account, attempt.found.webGroup ?? undefined)
  ensureActivateProgram(attempt)
  for (const folder of [places.dir, places.sockets]) {
    const closed = await findClosedFolder(account, folder)
    if (closed) {
      throw missing(
        'manual',
        `account ${name} cannot enter ${closed}. Allow it: chmod o+x ${closed}`,
      )
    }
  }
  await ensureLogFolder(places, account)
}

/** docker: git is the only program of the repository's that runs on the server itself, as nobody in particular. */
async function prepareGitAccount(attempt: Attempt): Promise<void> {
  const { places, settings } = attempt
  attempt.found.account = null
  if (isRoot()) {
    const name = `${settings.accountPrefix.replace(/e$/, '')}git`
    try {
      const { account } = await ensureAccount(name, settings.stateDir, 'Berth git')
      attempt.found.account = account
    } catch (error) {
      if (error instanceof AccountError) throw missing('docker', error.message)
      throw error
    }
  }
  const account = accountOf(attempt)
  await dropForeignRepository(places, account)
  ensureDockerFolders(places, account)
  const closed = await findClosedFolder(account, places.dir)
  if (closed) {
    const why = `account ${account?.name} cannot enter ${closed}. Allow it: chmod o+x ${closed}`
    throw missing('docker', why)
  }
}

export const gitContext = (attempt: Attempt): GitContext => ({
  account: accountOf(attempt),
  repository: attempt.places.repository,
  signal: attempt.interruption.signal,
})

/** Where git keeps this deployment's commit. */
export const deploymentRef = (taskId: number): string => `refs/berth/${taskId}`

function must<T>(checked: Checked<T>, code: FailureCode = FailureCode.CLONE_FAILED): T {
  if (checked.ok) return checked.value
  throw new StepFailure(code, checked.problem)
}

/** git itself would wait minutes for a host that does not answer over https. */
async function reachHost(address: RepositoryAddress): Promise<void> {
  if (address.transport !== 'https' && address.transport !== 'http') return
  const { hostname: host, port } = new URL(address.url)
  const number = Number(port) || (address.transport === 'https' ? 443 : 80)
  const trouble = await dial(host.replaceAll(/[[\]]/g, ''), number, STEPS.connectMs)
  if (!trouble) return
  const sentence =
    trouble === 'ETIMEDOUT'
      ? `No answer from ${address.host} in ${STEPS.connectMs / 1_000} s.`
      : trouble === 'ENOTFOUND' || trouble === 'EAI_AGAIN'
        ? `The name ${address.host} cannot be resolved on this server.`
        : `${address.host} cannot be reached from this server (${trouble}).`
  throw new StepFailure(FailureCode.CLONE_FAILED, sentence)
}

async function newRepository(attempt: Attempt, context: GitContext): Promise<void> {
  await removeTree(attempt.places.repository)
  ensureFolder(attempt.places.repository, 0o700, accountOf(attempt))
  if (!(await makeRepository(context))) throw new Error('the repository folder cannot be used')
}

/** A local copy that git cannot use any more is made anew: it holds nothing that cannot be fetched again. */
async function withRepository<T>(
  attempt: Attempt,
  context: GitContext,
  fetch: () => Promise<T>,
): Promise<T> {
  if (!hasRepository(context)) await newRepository(attempt, context)
  try {
    return await fetch()
  } catch (error) {
    if (!(error instanceof GitError) || error.failure.trouble !== 'damaged') throw error
  }
  attempt.output.say('The local copy of the repository is damaged and is made anew.')
  await newRepository(attempt, context)
  return fetch()
}

async function readFetched(attempt: Attempt, context: GitContext, ref: string) {
  const [commit, tree] = await Promise.all([readCommit(context, ref), readTree(context, ref)])
  attempt.found.tree = tree
  return commit
}

export async function fetchRepository(attempt: Attempt): Promise<void> {
  const { spec, settings, output, assignment } = attempt
  if (spec.recipe === Recipe.DOCKER) await prepareGitAccount(attempt)
  const source = spec.repository
  const address = must(
    checkRepositoryUrl(source?.url ?? '', {
      allowFile: settings.gitFolders === true,
      allowLoopbackHttp: settings.development,
    }),
  )
  const ref = must(checkRef(source?.ref ?? ''))
  const commit = source?.commitSha
    ? must(checkCommit(source.commitSha), FailureCode.COMMIT_NOT_FOUND)
    : undefined
  const knownHosts = must(checkKnownHosts(source?.knownHosts ?? []))
  output.say(
    `Fetching ${commit ? `${commit.slice(0, 12)} of ` : ''}${shortRef(ref)} from ${address.host || address.url}.`,
  )
  await reachHost(address)
  const context = gitContext(attempt)
  mkdirSync(attempt.scratch, { recursive: true, mode: 0o711 })
  const request = {
    ...context,
    settings,
    address,
    knownHosts,
    scratch: attempt.scratch,
    projectId: spec.environment?.projectId ?? 0,
    deployKey: attempt.secrets.deployKey,
    onText: (chunk: Buffer) => output.write(LogSource.STDERR, chunk),
  }
  const target = deploymentRef(assignment.taskId)
  const isThere = await withRepository(attempt, context, () =>
    withGitSession(request, (session) => fetchCommit(session, ref, commit, target)),
  ).catch((error) => {
    throw explainFetch(attempt, error)
  })
  const found = isThere ? await readFetched(attempt, context, target) : undefined
  if (!found || (commit && found.sha !== commit)) {
    throw new StepFailure(
      FailureCode.COMMIT_NOT_FOUND,
      `Commit ${(commit ?? '').slice(0, 12)} is not on ${shortRef(ref)} any more (force-pushed?).`,
    )
  }
  attempt.found.commit = found
  attempt.report.commit(found, ref)
  output.say(`Commit ${found.sha.slice(0, 12)}: ${found.subject}`)
}

function explainFetch(attempt: Attempt, error: unknown): unknown {
  attempt.interruption.throwIfFired()
  if (!(error instanceof GitError)) return error
  const code = isDiskFull(error.message) ? FailureCode.DISK_FULL : FailureCode.CLONE_FAILED
  return new StepFailure(code, error.message)
}

function warn(attempt: Attempt, code: string, message: string): void {
  attempt.output.say(`Warning: ${message}`)
  attempt.report.warning(code, message, 'unpack')
}

/** Of the root; empty: there is none, or none to be read. */
const sourceOf = async (attempt: Attempt, name: string): Promise<Buffer> => {
  const entry = need(attempt, 'tree').root.find(({ path }) => path === name)
  if (!entry || !isReadable(entry)) return Buffer.alloc(0)
  return readBlob(gitContext(attempt), entry.object, SERVICE_FILE.bytes)
}

const isReadable = ({ mode, size }: TreeEntry): boolean =>
  (mode === '100644' || mode === '100755') && size <= SERVICE_FILE.bytes

/** What steps after this one read is read meanwhile. */
async function writeFiles(attempt: Attempt, sha: string): Promise<{ attributes: Buffer }> {
  await removeTree(attempt.releaseDir)
  ensureFolder(attempt.releaseDir, 0o750, accountOf(attempt))
  const [attributes, source] = await Promise.all([
    sourceOf(attempt, '.gitattributes'),
    sourceOf(attempt, FILE_NAME),
    checkOut(gitContext(attempt), sha, attempt.releaseDir),
  ])
  attempt.found.source = source
  return { attributes }
}

export async function unpack(attempt: Attempt): Promise<void> {
  const { sha } = need(attempt, 'commit')
  const { tree } = attempt.found
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
  const { attributes } = await writeFiles(attempt, sha)
  if (tree.submodules.length > 0) {
    const names = tree.submodules.slice(0, 5).join(', ')
    warn(attempt, 'submodules_skipped', `submodules are not fetched: ${names}.`)
  }
  if (/\bfilter=lfs\b/.test(attributes.toString('utf8'))) {
    warn(attempt, 'lfs_skipped', 'files of Git LFS are not fetched; their pointers are deployed.')
  }
  attempt.output.say(`${tree.files} files unpacked.`)
}
