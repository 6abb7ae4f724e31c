// An installation from a Debian package. dpkg owns the files that the package delivered; the versions that run are ours,
// so a version that does not become ready can be undone although dpkg has replaced its files.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AGENT_MANIFEST_SIGNATURE } from '@berth/shared/release'
import { readSlot } from '@berth/shared/slots'
import { VERSION } from '@berth/shared/version'
import type { CheckedRelease } from './release-source.ts'
import { cleanEnvironment } from './service.ts'

/** Where the package puts its files; the scripts of the package and install-server.sh know it too. */
export const DELIVERED = '/usr/lib/berth-server'

/** The version that dpkg has; undefined: this installation has no package. */
export function readDelivered(root: string): string | undefined {
  const file = join(DELIVERED, 'VERSION')
  if (root !== '/opt/berth-server' || !existsSync(file)) return undefined
  return readFileSync(file, 'utf8').trim()
}

async function dpkg(args: string[], env: NodeJS.ProcessEnv): Promise<boolean> {
  const child = spawn('dpkg', args, { env, stdio: ['ignore', 'inherit', 'inherit'] })
  const [code] = await once(child, 'close')
  return code === 0
}

/** The package's own script asks this program to try the new version. Returns the exit code. */
export async function installPackage(
  root: string,
  release: CheckedRelease,
  env: NodeJS.ProcessEnv,
  waitSeconds: string | undefined,
): Promise<number> {
  const own = cleanEnvironment(env, root)
  const settings = waitSeconds === undefined ? own : { ...own, BERTH_UPGRADE_WAIT: waitSeconds }
  // settings that both sides changed stay those of the operator; dpkg cannot ask here
  const keep = ['--force-confdef', '--force-confold']
  const isDone = await dpkg([...keep, '--install', release.file], settings)
  if (readDelivered(root) !== release.version) {
    throw new Error(`dpkg did not install the package, so version ${VERSION} runs on.`)
  }
  if (!isDone) {
    // the failed version is noted, so this tries nothing; it only leaves apt usable
    await dpkg(['--configure', 'berth-server'], own)
    return 1
  }
  const signature = join(root, release.version, 'packages', AGENT_MANIFEST_SIGNATURE)
  if (readSlot(root, 'current') === release.version && !existsSync(signature)) {
    if (release.agentSignature) writeFileSync(signature, release.agentSignature)
  }
  return 0
}
