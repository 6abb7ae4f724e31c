// `berth-server doctor`: checks what the settings name, and says how to fix each problem. It changes nothing. Every wait
// is bounded, and what does not depend on each other is checked together.
import { statSync } from 'node:fs'
import {
  asJson,
  asText,
  type Finding,
  hasProblem,
  ok,
  problem,
  skipped,
  warning,
} from '@berth/shared/findings'
import { type Config, toConfig } from '../../config.ts'
import { readSettings } from '../../settings/read.ts'
import { type CommandContext, takesJson } from '../command.ts'
import { checkClock, checkDatabase, checkMail } from './connections.ts'
import { checkHttps } from './https.ts'
import { checkDataFolder, checkFiles, checkKey, checkUpgrade, isUsable } from './machine.ts'
import { checkAddress, checkNames, checkPorts } from './network.ts'
import { checkReplicas } from './replicas.ts'

export async function doctor({ args, env, print }: CommandContext): Promise<number> {
  const json = takesJson(args)
  const settings = readSettings(env)
  const fix = 'Correct it; `berth-server config check` shows every setting.'
  const findings = [
    ...settings.warnings.map((one) => warning('settings', one, fix)),
    ...settings.problems.map((one) => problem('settings', one, fix)),
  ]
  if (settings.problems.length > 0) {
    findings.push(skipped('everything else', 'it depends on the settings'))
  } else {
    const config = toConfig(settings)
    findings.push(ok('settings', settings.file ?? 'from the environment'))
    findings.push(...becomeOwner(config), ...(await examine(config)))
  }
  print(json ? asJson(findings) : asText(findings))
  return hasProblem(findings) ? 1 : 0
}

/**
 * Root reads and writes everything, so it would see no wrong permission, and SQLite would leave files of root. The owner
 * of the data folder is the account that runs the control plane, unless root gives it to a container through a group.
 */
function becomeOwner({ dataDir }: Config): Finding[] {
  const owner = statSync(dataDir, { throwIfNoEntry: false })
  const me = process.geteuid?.()
  if (!owner || me === undefined || owner.uid === me) return []
  if (me !== 0) {
    if (owner.uid === 0 && isUsable(dataDir)) return []
    const message = `the data folder belongs to another account (uid ${owner.uid})`
    const fix = 'Run the doctor as the account that runs the control plane, or as root.'
    return [warning('account', message, fix)]
  }
  process.setgroups?.([owner.gid])
  process.setgid?.(owner.gid)
  process.setuid?.(owner.uid)
  return [ok('account', `checked as uid ${owner.uid}, the owner of the data folder`)]
}

export async function examine(config: Config): Promise<Finding[]> {
  const { findings: databaseFindings, database } = await checkDatabase(config)
  const databaseOffset = database?.now === undefined ? undefined : database.now - Date.now()
  const [ports, names, https, address, mail, files, replicas] = await Promise.all([
    checkPorts(config, database?.caCertificate),
    checkNames(config),
    checkHttps(config),
    checkAddress(config),
    checkMail(config),
    checkFiles(config),
    checkReplicas(config, database),
  ])
  const clock =
    databaseOffset !== undefined
      ? { name: 'the database', offsetMs: databaseOffset }
      : address.offsetMs !== undefined
        ? { name: config.baseUrl, offsetMs: address.offsetMs }
        : undefined
  return [
    ...checkUpgrade(process.argv[1] ?? ''),
    ...checkDataFolder(config),
    checkKey(config, database),
    ...databaseFindings,
    checkClock(clock),
    ...replicas,
    ...ports,
    ...names,
    ...https,
    ...address.findings,
    mail,
    ...files,
  ]
}
