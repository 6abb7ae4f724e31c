// Where an installation of the agent keeps what is not state: program, units, files of sshd. A development agent (a
// checkout, a test) has none of it, and must never touch that of the machine.
import { existsSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runProgram } from '../../machine/process/programs.ts'
import type { AgentSettings } from '../../settings.ts'
import { sshPaths } from '../../ssh/paths.ts'

export const PROGRAM = '/opt/berth'
export const UNIT = 'berth-agent.service'
const LINKS = ['/usr/local/bin/berth-agent', '/usr/bin/berth-agent']
const UNITS = '/etc/systemd/system'
export const PACKAGE = 'berth-agent'

export const isInstalled = (settings: AgentSettings): boolean => !settings.development

/** A link of this name that leads elsewhere was made by a person. */
const isOurs = (link: string): boolean => {
  try {
    return readlinkSync(link).startsWith(`${PROGRAM}/`)
  } catch {
    return false
  }
}

export const listLinks = (settings: AgentSettings): string[] =>
  isInstalled(settings) ? LINKS.filter(isOurs) : []

export const listUnits = (settings: AgentSettings): string[] =>
  isInstalled(settings)
    ? [UNIT, `${UNIT}.d`, `multi-user.target.wants/${UNIT}`].map((name) => join(UNITS, name))
    : []

/** Files beside the state, program and units. /etc/berth itself may also hold files of a control plane. */
export function listFiles(settings: AgentSettings): string[] {
  const { localRules } = sshPaths(settings)
  const launcher = dirname(settings.ssh.launcher)
  // a development agent's launcher is inside its own folder
  return [settings.ssh.dir, ...(isInstalled(settings) ? [localRules, launcher] : [])]
}

/** The folder of the settings, which is removed when it is empty. */
export const settingsFolder = (settings: AgentSettings): string => dirname(settings.ssh.dir)

/** Whether dpkg knows the package, also one whose removal was interrupted. */
export async function isPackaged(settings: AgentSettings): Promise<boolean> {
  if (!isInstalled(settings) || !existsSync('/var/lib/dpkg/status')) return false
  const { code, stdout } = await runProgram(['dpkg-query', '--status', PACKAGE])
  return code === 0 && !/^Status: .* not-installed$/m.test(stdout.toString('utf8'))
}
