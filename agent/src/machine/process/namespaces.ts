// What the kernel lets us do with mounts: some containers have no right to, and there the confinement is weaker.
import { execFileSync } from 'node:child_process'
import { DAEMON } from '@berth/shared'

const MOUNTS = ['--mount', '--propagation', 'private']

let answer: string[] | undefined

function isAllowed(unshare: string, kinds: string[]): boolean {
  const script = 'mount -t tmpfs -o size=4k berth-probe /mnt'
  try {
    const argv = [...kinds, '--', '/bin/sh', '-c', script]
    execFileSync(unshare, argv, { stdio: 'ignore', timeout: DAEMON.probeMs })
    return true
  } catch {
    return false
  }
}

/**
 * What a command gets of its own, as options of unshare: mounts, and the memory that processes share by name. Empty: nothing.
 * Asked once a process: it does not change while a machine is up.
 */
export function ownNamespaces(unshare: string): string[] {
  answer ??= [[...MOUNTS, '--ipc'], MOUNTS].find((kinds) => isAllowed(unshare, kinds)) ?? []
  return answer
}

export const canUnshareMounts = (unshare: string): boolean => ownNamespaces(unshare).length > 0
