// `berth-server renew-certificate`: lets the running control plane order a certificate now, for example after a name was
// corrected. Without it, the next try after a failure may be hours away.
import { toConfig } from '../config.ts'
import { TlsFiles } from '../https/files.ts'
import { readSettings } from '../settings/read.ts'
import type { CommandContext } from './command.ts'
import { readOptions } from './options.ts'

export async function renewCertificate({ args, env, print }: CommandContext): Promise<number> {
  readOptions(args, {}, { usage: 'renew-certificate' })
  const { dataDir, https } = toConfig(readSettings(env))
  if (!https) throw new Error('BERTH_DOMAIN is not set: the proxy in front renews its certificate.')
  if (https.files)
    throw new Error('The certificate comes from files. Replace them; that is noticed.')
  new TlsFiles(dataDir, https.domain).wantRenewal()
  print(`The running control plane orders a certificate for ${https.domain} within seconds.`)
  print('`berth-server doctor` shows the result.')
  return 0
}
