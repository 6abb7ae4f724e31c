// Before anything is created: checks that this server can deploy (`admit`) and prepares the account (`account`).

import { FailureCode, Recipe } from '@berth/shared/wire'
import { ensureEnvironmentFolders, ensureLogFolder } from '../../machine/files.ts'
import { locateProgram } from '../../machine/process/programs.ts'
import { serverName } from '../../machine/server-settings.ts'
import { AccountError, ensureAccount, findClosedFolder, isRoot } from '../../machine/users/users.ts'
import { findWebGroup } from '../../proxy/caddy/web-group.ts'
import { guardServer } from '../../resources/firewall.ts'
import { ensureActivateProgram } from '../activation.ts'
import { type Attempt, accountOf, environmentName } from '../attempt.ts'
import { missing, StepFailure } from '../failure.ts'
import { requireProxy, routingOf } from '../routing.ts'
import { checkDiskSpace } from '../steps/disk-space.ts'
import { recoverManual } from './recover.ts'
import { endLeftovers } from './service-processes.ts'

/** Removes what finished attempts left behind before this one creates anything. */
async function recoverBefore(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output, results } = attempt
  // this version most likely routes what the previous one routed; the rest is checked after the file is read
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
      `The agent of server ${serverName(settings)} does not know this kind of task. Update the agent.`,
    )
  }
  if (spec.environment?.untrusted) {
    throw missing(
      attempt,
      'manual',
      'commits of forks never run commands directly on a server. Use the docker recipe for them.',
    )
  }
  if (!isRoot() && !settings.development) {
    throw missing(attempt, 'manual', 'the agent does not run as root and may not create accounts.')
  }
  for (const name of ['git', ...(isRoot() ? ['setpriv', 'useradd'] : [])]) {
    if (!locateProgram(name)) throw missing(attempt, 'manual', `${name} is not installed.`)
  }
  await recoverBefore(attempt)
  await checkDiskSpace(attempt)
  const terminal = attempt.pty ? 'a terminal' : 'pipes (node-pty is not installed: no terminal)'
  attempt.output.say(
    `Server ${serverName(settings)}: manual recipe, commands run with ${terminal}.`,
  )
}

export async function prepareAccount(attempt: Attempt): Promise<void> {
  const { paths, output } = attempt
  const name = environmentName(attempt)
  if (isRoot()) {
    try {
      const purpose = `Berth environment ${attempt.assignment.environmentId}`
      const { account, isNew } = await ensureAccount(name, paths.dir, purpose)
      attempt.results.account = account
      // before its first command, so that metadata addresses and other environments' networks are out of its reach
      await guardServer(attempt.settings, attempt.ledger)
      output.say(isNew ? `Account ${name} was made.` : `Account ${name}.`)
    } catch (error) {
      if (error instanceof AccountError) throw missing(attempt, 'manual', error.message)
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
        attempt,
        'manual',
        `account ${name} cannot enter ${closed}. Allow it: chmod o+x ${closed}`,
      )
    }
  }
  await ensureLogFolder(paths, account)
}
