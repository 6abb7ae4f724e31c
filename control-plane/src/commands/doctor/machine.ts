// Checks what is on this machine: the data folder, the key, the agents' packages and the dashboard.
import { accessSync, constants, existsSync, type Stats, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Finding, ok, problem, reasonOf, warning } from '@berth/shared/findings'
import { MiB, showBytes } from '@berth/shared/units'
import { VERSION } from '@berth/shared/version'
import { listAgentPackages } from '../../app/servers/agent-packages.ts'
import type { Config } from '../../config.ts'
import { toUtc } from '../../domain/core/utc.ts'
import { diskFloor } from '../../domain/installation/alerts.ts'
import { loadKek } from '../../keys/secret-store.ts'
import { DOCTOR } from '../../limits/installation.ts'
import { isOursToChange, nearestFolder } from '../../store/engine/private-files.ts'
import type { Inspection } from '../../store/installation/inspection.ts'
import { readUndone } from '../upgrade/journal.ts'
import { readDelivered } from '../upgrade/package.ts'
import { locateInstallation } from '../upgrade/slots.ts'

const DATA = 'data folder'

function accessFault(folder: string): string | undefined {
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return undefined
  } catch (error) {
    return reasonOf(error)
  }
}

export const isUsable = (folder: string): boolean => accessFault(folder) === undefined

export function checkDataFolder({ dataDir }: Config): Finding[] {
  const at = nearestFolder(dataDir)
  const stat: Stats = statSync(at)
  if (!stat.isDirectory()) {
    return [problem(DATA, `${at} is a file`, 'Set BERTH_DATA_DIR to a folder.')]
  }
  const fault = accessFault(at)
  if (fault !== undefined) {
    const fix = `Give it to the account that runs the control plane (chown, mode 0700), on a file system that can be written, or set BERTH_DATA_DIR.`
    return [problem(DATA, `${at} cannot be written (${fault})`, fix)]
  }
  const found = [at === dataDir ? judgeMode(dataDir, stat) : ok(DATA, `${dataDir} will be created`)]
  return [...found, ...checkSpace(at)]
}

function judgeMode(folder: string, stat: Stats): Finding {
  const bits = (stat.mode & 0o777).toString(8)
  if ((stat.mode & 0o077) === 0) return ok(DATA, `${folder}, mode ${bits}`)
  if (!isOursToChange(stat)) return ok(DATA, `${folder}, mode ${bits}, given by uid ${stat.uid}`)
  const fix = `Run \`chmod 0700 ${folder}\`; a start does it too.`
  return warning(DATA, `other accounts can enter ${folder} (mode ${bits})`, fix)
}

function checkSpace(folder: string): Finding[] {
  const { bsize, blocks, bavail, files, ffree } = statfsSync(folder)
  const free = bavail * bsize
  const total = blocks * bsize
  const fix = 'Delete what is not needed there, enlarge the file system, or move the data folder.'
  const shown = `${showBytes(free)} of ${showBytes(total)} are free`
  const space =
    free < 64 * MiB
      ? problem('disk', `${shown}, so writes fail soon`, fix)
      : free < diskFloor(total)
        ? warning('disk', shown, fix)
        : ok('disk', shown)
  if (files === 0 || ffree >= DOCTOR.inodes) return [space]
  return [space, warning('disk', `only ${ffree} more files fit`, fix)]
}

export function checkKey(config: Config, database: Inspection | undefined): Finding {
  const subject = 'key file'
  const { kekFile, previousKekFile, createKek } = config
  const hasSecrets = (database?.kekIds.length ?? 0) > 0
  if (createKek && !hasSecrets && !existsSync(kekFile)) {
    return ok(subject, `${kekFile} will be created at the first start`)
  }
  try {
    const ids = [kekFile, ...(previousKekFile === undefined ? [] : [previousKekFile])].map(
      (file) => loadKek(file).id,
    )
    const strange = database?.kekIds.filter((id) => !ids.includes(id)) ?? []
    if (strange.length === 0)
      return ok(subject, hasSecrets ? `${kekFile} opens the database` : kekFile)
    return problem(
      subject,
      `the database was encrypted with another key than ${kekFile}`,
      'Restore the key file that belongs to this database. After a replacement, name the previous one in BERTH_KEK_PREVIOUS_FILE.',
    )
  } catch (error) {
    // the message of a KekError is a sentence that says what to do
    const [first = '', ...rest] = (error as Error).message.split(/(?<=\.) /)
    return problem(subject, first.replace(/\.$/, ''), rest.join(' ') || 'Correct BERTH_KEK_FILE.')
  }
}

/** `main`: the file of this program. A checkout and a container are upgraded by other means. */
export function checkUpgrade(main: string): Finding[] {
  const installation = locateInstallation(main)
  if (!installation) return []
  const { root } = installation
  const subject = 'version'
  const undone = readUndone(root)
  const delivered = readDelivered(root)
  const again =
    delivered === undefined
      ? 'Install a newer release, or this one again (`berth-server upgrade --from …`).'
      : 'Install a newer package, or try this one again (`berth-server upgrade`).'
  if (undone) {
    const failed = `the upgrade to ${undone.version} was undone (${toUtc(undone.at)}: ${undone.why}), so ${VERSION} runs`
    return [warning(subject, failed, `Look at the log of that time. ${again}`)]
  }
  if (delivered !== undefined && delivered !== VERSION) {
    return [warning(subject, `the package has ${delivered}, and ${VERSION} runs`, again)]
  }
  return [ok(subject, VERSION)]
}

export async function checkFiles(config: Config): Promise<Finding[]> {
  const packages = await listAgentPackages({ config }).catch(() => [])
  const platforms = packages.map(({ platform }) => platform)
  const missing = ['linux-x64', 'linux-arm64'].filter((one) => !platforms.includes(one))
  const folder = config.agentPackages
  const subject = "agents' packages"
  const fix =
    'Run `npm run bundle` in a checkout, or set BERTH_AGENT_PACKAGES to the folder that holds them.'
  const agents =
    platforms.length === 0
      ? problem(subject, `${folder} holds none, so no server can be added`, fix)
      : missing.length > 0
        ? warning(
            subject,
            `${folder} has ${platforms.join(', ')}, and none for ${missing.join(', ')}`,
            fix,
          )
        : ok(subject, `${platforms.join(', ')} in ${folder}`)
  const page = join(config.dashboardDir, 'index.html')
  const dashboard = existsSync(page)
    ? ok('dashboard', config.dashboardDir)
    : problem(
        'dashboard',
        `${config.dashboardDir} does not hold it, so people see no page`,
        'Run `npm run build:dashboard` in a checkout, or set BERTH_DASHBOARD_DIR to the folder that holds it.',
      )
  return [agents, dashboard]
}
