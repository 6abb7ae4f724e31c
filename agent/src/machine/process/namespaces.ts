// Checks what the kernel lets us do with mounts; some containers lack the right, which makes the confinement weaker.
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
 * The namespaces of a command, as options of unshare: mounts, and named shared memory; possibly empty. Checked once per
 * process, because it does not change until the next boot.
 */
export function ownNamespaces(unshare: string): string[] {
  answer ??= [[...MOUNTS, '--ipc'], MOUNTS].find((kinds) => isAllowed(unshare, kinds)) ?? []
  return answer
}

export const canUnshareMounts = (unshare: string): boolean => ownNamespaces(unshare).length > 0
