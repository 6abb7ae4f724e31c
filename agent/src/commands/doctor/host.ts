// Checks the machine: disk, memory, control groups, packet rules, the engine and the programs that recipes need.
import { existsSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Finding, ok, problem, skipped, warning } from '@berth/shared/findings'
import { GiB } from '@berth/shared/units'
import { DOCTOR } from '../../limits/maintenance.ts'
import { measureDiskSpace } from '../../machine/disk-space.ts'
import { engineFacts, openEngine } from '../../machine/docker/engine.ts'
import { ENGINE_ADVICE, refuseEngine } from '../../machine/docker/engine-kind.ts'
import { findFirewallFault, readFirewallState } from '../../machine/firewall/apply.ts'
import type { HostPart } from '../../machine/host-parts.ts'
import { isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'

const sized = (bytes: number): string => `${(bytes / GiB).toFixed(1)} GiB`

function nearest(folder: string): string {
  let at = folder
  while (!existsSync(at)) at = dirname(at)
  return at
}

/** Of the state and of the engine's data, each file system once. */
export function checkDisk(settings: AgentSettings, dataRoot: string | undefined): Finding[] {
  const folders = [settings.stateDir, ...(dataRoot ? [dataRoot] : [])].map(nearest)
  return measureDiskSpace(folders).map(({ folder, freeBytes, sizeBytes, freeInodes }) => {
    const subject = `disk of ${folder}`
    const shown = `${sized(freeBytes)} of ${sized(sizeBytes)} are free`
    const fix = 'Remove environments or other files that are not needed, or enlarge the disk.'
    if (freeInodes < DOCTOR.inodes)
      return problem(subject, `only ${freeInodes} more files fit`, fix)
    if (freeBytes < DOCTOR.diskProblemBytes)
      return problem(subject, `${shown}: deployments are refused`, fix)
    return freeBytes < DOCTOR.diskBytes ? warning(subject, shown, fix) : ok(subject, shown)
  })
}

export function checkMemory(text = readFileSync('/proc/meminfo', 'utf8')): Finding {
  const read = (name: string): number =>
    Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0) * 1_024
  const [total, available] = [read('MemTotal'), read('MemAvailable')]
  const shown = `${sized(available)} of ${sized(total)} are available`
  const fix = 'Add memory, or lower the limits of environments and builds on the server page.'
  if (total < DOCTOR.memoryBytes || available < total * DOCTOR.memoryPart) {
    return warning('memory', shown, fix)
  }
  return ok('memory', shown)
}

const CONTROLLERS = ['cpu', 'memory', 'pids']

export function checkGroups(root = '/sys/fs/cgroup'): Finding {
  const subject = 'control groups'
  const file = `${root}/cgroup.controllers`
  if (!existsSync(file)) {
    if (CONTROLLERS.some((name) => existsSync(`${root}/${name}`))) {
      return ok(subject, 'version 1; version 2 is recommended (systemd.unified_cgroup_hierarchy=1)')
    }
    const fix =
      'Mount them (systemd does), or give the container that this server is access to them.'
    return problem(subject, `none are mounted at ${root}: limits and clean ends do not work`, fix)
  }
  const has = readFileSync(file, 'utf8').trim().split(/\s+/)
  const missing = CONTROLLERS.filter((name) => !has.includes(name))
  if (missing.length === 0) return ok(subject, `version 2: ${CONTROLLERS.join(', ')}`)
  const fix = 'Enable them for this machine; on a virtual server, ask its provider.'
  return warning(subject, `version 2 without ${missing.join(', ')}: those limits do not apply`, fix)
}

export async function checkFirewall(settings: AgentSettings): Promise<Finding> {
  const subject = 'packet rules'
  if (settings.firewall === false) {
    const fix = 'Remove BERTH_FIREWALL=off, unless you keep environments apart yourself.'
    return warning(subject, 'switched off (BERTH_FIREWALL=off)', fix)
  }
  if (!isRoot()) return skipped(subject, 'only root sees them', 'Run the doctor as root.')
  const fault = await findFirewallFault()
  if (fault) {
    const fix = 'Install iptables (apt-get install iptables), and load its modules of the kernel.'
    return problem(subject, `they cannot be set: ${fault}`, fix)
  }
  const state = readFirewallState(settings)
  if (state?.isInForce) return ok(subject, 'in force')
  const fix = 'Start the daemon; it sets them.'
  return state
    ? problem(subject, state.reason, fix)
    : warning(subject, 'they can be set, and are not set yet', fix)
}

/** Returns where its data is, too. */
export async function checkEngine(
  settings: AgentSettings,
): Promise<{ findings: Finding[]; dataRoot?: string }> {
  const subject = 'Docker engine'
  const { dockerSocket } = settings
  if (!existsSync(dockerSocket)) {
    const fix =
      'For the docker recipe: run install.sh again with --with-docker, or install Docker 20.10 or newer. The manual recipe needs none.'
    return { findings: [warning(subject, `none at ${dockerSocket}`, fix)] }
  }
  try {
    const facts = await engineFacts(openEngine(settings), DOCTOR.waitMs)
    const { version, kind, cgroup, storage, dataRoot } = facts
    const refusal = refuseEngine(facts)
    if (refusal) return { findings: [problem(subject, refusal, ENGINE_ADVICE[kind])] }
    const message = `Docker ${version} as root at ${dockerSocket}, control groups version ${cgroup}, storage ${storage}`
    return { findings: [ok(subject, message)], dataRoot }
  } catch (error) {
    const fix = 'Start it (systemctl start docker) and look at its log (journalctl -u docker).'
    return { findings: [problem(subject, `it does not answer: ${(error as Error).message}`, fix)] }
  }
}

const FIXES: Record<string, { isNeeded: boolean; fix: string }> = {
  git: { isNeeded: true, fix: 'Install it: apt-get install git' },
  users: { isNeeded: true, fix: 'Run the agent as root, with useradd (apt-get install passwd).' },
  mounts: { isNeeded: false, fix: 'Allow mount namespaces to the agent (CAP_SYS_ADMIN).' },
  pty: { isNeeded: false, fix: 'Use the packaged agent, which contains it.' },
}

/** Parts of the host that have no check of their own. */
export const checkParts = (parts: readonly HostPart[]): Finding[] =>
  parts.flatMap(({ name, version, reason }) => {
    const known = FIXES[name]
    if (!known) return []
    if (version) return [ok(name, version)]
    return [(known.isNeeded ? problem : warning)(name, reason.replace(/\.$/, ''), known.fix)]
  })
