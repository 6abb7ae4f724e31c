// `berth-server serve`: runs the control plane until a signal ends it.
import { VERSION } from '@berth/shared/version'
import { toConfig } from '../config.ts'
import type { Context } from '../context.ts'
import { startControlPlane } from '../server.ts'
import { readSettings } from '../settings/read.ts'
import { makePrivateFolder } from '../store/engine/private-files.ts'
import type { CommandContext } from './command.ts'
import { forgetRunning, noteRunning } from './upgrade/running.ts'

export async function serve({ env, print }: CommandContext): Promise<undefined> {
  const settings = readSettings(env)
  const { dataDir } = toConfig(settings)
  makePrivateFolder(dataDir)
  noteRunning(dataDir, VERSION, false)
  for (const warning of settings.warnings) console.error(`warning: ${warning}`)
  const controlPlane = await startControlPlane({
    config: toConfig(settings),
    print,
    onLost: (message) => {
      console.error(`error: ${message}`)
      process.exit(1)
    },
  })
  noteRunning(dataDir, VERSION, true)
  print(`Berth listens at ${controlPlane.baseUrl}, for agents at port ${controlPlane.gateway.port}`)
  if (controlPlane.setupToken) {
    // after the #, so that no server or proxy logs the token
    const link = `${controlPlane.baseUrl}/setup#${controlPlane.setupToken}`
    print(`No administrator yet. One-time set-up link: ${link}`)
  }
  void controlPlane.certified.then(() => {
    for (const line of describeCertificate(controlPlane.ctx)) print(line)
  })
  const stop = (): void => {
    controlPlane.close().then(
      () => {
        forgetRunning(dataDir)
        process.exit(0)
      },
      () => process.exit(1),
    )
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
  return undefined
}

/** For the terminal and the installer, which wait for it. */
function describeCertificate({ certificates, config }: Context): string[] {
  if (!certificates || !config.https) return []
  const { until, status } = certificates
  const name = `HTTPS certificate of ${config.https.domain}`
  if (until !== undefined && !status.problem) {
    return [`${name}: valid until ${new Date(until).toISOString().slice(0, 10)}`]
  }
  if (!status.problem) return []
  const { message, fix } = status.problem
  return [`${name}: none new, ${message}`, `→ ${fix}`]
}
