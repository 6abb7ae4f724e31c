// The file that sshd's ForceCommand names, owned by root: a fixed line that starts the forced command with this agent's
// Node.js. Settings are written into it here, quoted; no part of a request is.
import { chmodSync, existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { replaceFile } from '../../machine/atomic-files.ts'
import { locateProgram } from '../../machine/process/programs.ts'
import { findAccount, findClosedFolder } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount, sshPaths } from '../paths.ts'

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Beside the packaged agent, or in the source. */
function forcedCommandFile(
  { ssh }: Pick<AgentSettings, 'ssh'>,
  program: readonly string[],
): string {
  if (ssh.command) return ssh.command
  const main = program.at(-1) ?? ''
  const packaged = join(dirname(main), 'ssh-session.cjs')
  return existsSync(packaged) ? packaged : join(import.meta.dirname, '../sessions/session-main.ts')
}

/** Prefers a Node.js beside a custom forced command, as other accounts may be unable to enter the agent's folder. */
function nodeFile({ ssh }: Pick<AgentSettings, 'ssh'>, program: readonly string[]): string {
  const beside = ssh.command ? join(dirname(ssh.command), 'node') : ''
  return existsSync(beside) ? beside : (program[0] ?? process.execPath)
}

export function renderLauncher(
  settings: Pick<AgentSettings, 'accountPrefix' | 'runDir' | 'stateDir' | 'ssh'>,
  program: readonly string[],
): string {
  const { socket, authorities } = sshPaths(settings)
  const words = [
    nodeFile(settings, program),
    '--disable-warning=ExperimentalWarning',
    // at exit Node.js waits for compiler threads; one that waits for the garbage collector would never end
    '--no-concurrent-recompilation',
    forcedCommandFile(settings, program),
  ]
  return `#!/bin/sh
# Written by berth-agent: what sshd starts for its accounts, whatever the client asked for.
exec ${words.map(quote).join(' ')} "$1" ${quote(socket)} ${quote(authorities)}
`
}

/** Throws a sentence when the relay accounts cannot read the program. */
export async function writeLauncher(
  settings: AgentSettings,
  program: readonly string[],
): Promise<void> {
  const { launcher } = settings.ssh
  mkdirSync(dirname(launcher), { recursive: true, mode: 0o755 })
  replaceFile(launcher, renderLauncher(settings, program), 0o755)
  chmodSync(launcher, 0o755)
  const account = await findAccount(relayAccount(settings, 'berth-ssh'))
  for (const folder of [
    dirname(launcher),
    dirname(nodeFile(settings, program)),
    dirname(forcedCommandFile(settings, program)),
  ]) {
    const closed = locateProgram('setpriv') && (await findClosedFolder(account, folder))
    if (closed)
      throw new Error(`The accounts for SSH cannot enter ${closed}: run chmod o+x ${closed}.`)
  }
}
