// Phase checkout: may this server do it (`admit`), as whom (`account`), and the files of the commit that was fetched
// (`unpack`). Every refusal is a sentence to act on; until `unpack` nothing but empty folders and fetched objects was
// made.
import { hostname } from 'node:os'
import { SERVICE_FILE, STEPS } from '@berth/shared'
import { FILE_NAME } from '@berth/shared/service-file'
import { FailureCode, Recipe } from '@berth/shared/wire'
import {
  ensureDockerFolders,
  ensureEnvironmentFolders,
  ensureFolder,
  ensureLogFolder,
  handOver,
  removeTree,
} from '../../machine/files.ts'
import { checkOut, GitError, readBlob, type TreeEntry } from '../../machine/git/git.ts'
import { locateProgram } from '../../machine/process/programs.ts'
import { AccountError, ensureAccount, findClosedFolder, isRoot } from '../../machine/users/users.ts'
import { findWebGroup } from '../../proxy/caddy/web-group.ts'
import { guardServer } from '../../resources/firewall.ts'
import { ensureActivateProgram } from '../activation.ts'
import { type Attempt, accountOf, environmentName, need } from '../attempt.ts'
import { missing, StepFailure } from '../failure.ts'
import { recoverManual } from '../manual/recover.ts'
import { endLeftovers } from '../manual/service-processes.ts'
import { requireProxy, routingOf } from '../routing.ts'
import { checkDiskSpace } from './disk-space.ts'
import { gitContext } from './fetch.ts'

/** What attempts that are over left behind goes before this one makes anything of its own. */
async function recoverBefore(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output, results } = attempt
  // what the version before routed, this one will most likely route too; the rest is asked when the file was read
  const routed = results.last?.routes?.map(({ service }) => service) ?? []
  await requireProxy(attempt, [...new Set(routed)])
  const context = { edge: routingOf(attempt).edge, ledger, settings }
  for (const note of await recoverManual(context, assignment)) output.say(note)
  await endLeftovers(attempt)
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
  await recoverBefore(attempt)
  await checkDiskSpace(attempt)
  const terminal = attempt.pty ? 'a terminal' : 'pipes (node-pty is not installed: no terminal)'
  attempt.output.say(`Server ${hostname()}: manual recipe, commands run with ${terminal}.`)
}

export async function prepareAccount(attempt: Attempt): Promise<void> {
  const { paths, output } = attempt
  const name = environmentName(attempt)
  if (isRoot()) {
    try {
      const purpose = `Berth environment ${attempt.assignment.environmentId}`
      const { account, isNew } = await ensureAccount(name, paths.dir, purpose)
      attempt.results.account = account
      // before its first command: metadata addresses and other environments' networks are out of its reach
      await guardServer(attempt.settings, attempt.ledger)
      output.say(isNew ? `Account ${name} was made.` : `Account ${name}.`)
    } catch (error) {
      if (error instanceof AccountError) throw missing('manual', error.message)
      throw error
    }
  } else {
    attempt.results.account = null
    output.say('Warning: without root, commands run as your own user and can do what you can.')
  }
  const account = accountOf(attempt)
  attempt.results.webGroup = (await findWebGroup(attempt.settings)) ?? null
  ensureEnvironmentFolders(paths, account, attempt.results.webGroup ?? undefined)
  ensureActivateProgram(attempt)
  for (const folder of [paths.dir, paths.sockets]) {
    const closed = await findClosedFolder(account, folder)
    if (closed) {
      throw missing(
        'manual',
        `account ${name} cannot enter ${closed}. Allow it: chmod o+x ${closed}`,
      )
    }
  }
  await ensureLogFolder(paths, account)
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

/** A copy that turns out to be broken only now is dropped: nothing but a new one helps. */
async function explainUnpack(attempt: Attempt, error: unknown): Promise<unknown> {
  attempt.interruption.throwIfFired()
  if (!(error instanceof GitError) || error.failure.trouble !== 'damaged') return error
  await removeTree(attempt.paths.repository)
  return new StepFailure(
    FailureCode.CLONE_FAILED,
    'The local copy of the repository was damaged and has been removed. Deploy again.',
  )
}

/** What steps after this one read is read meanwhile. */
async function writeFiles(attempt: Attempt, sha: string): Promise<{ attributes: Buffer }> {
  const { paths, releaseDir, spec } = attempt
  const isDocker = spec.recipe === Recipe.DOCKER
  if (isDocker) ensureDockerFolders(paths, isRoot())
  await Promise.all([removeTree(releaseDir), removeTree(paths.checkout)])
  const context = gitContext(attempt)
  ensureFolder(paths.checkout, 0o700, context.account)
  const [attributes, source] = await Promise.all([
    sourceOf(attempt, '.gitattributes'),
    sourceOf(attempt, FILE_NAME),
    checkOut(context, sha, paths.checkout),
  ])
  // a build reads it as root
  await handOver(paths.checkout, releaseDir, isDocker ? undefined : accountOf(attempt))
  attempt.results.source = source
  return { attributes }
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
