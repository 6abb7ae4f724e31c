// What the kernel lets us do with mounts: some containers have no right to, and there the confinement is weaker.
import { execFileSync } from 'node:child_process'
import { DAEMON } from '@berth/shared'

let answer: boolean | undefined

/** Asked once a process: it does not change while a machine is up. */
export function canUnshareMounts(unshare: string): boolean {
  if (answer !== undefined) return answer
  const script = 'mount -t tmpfs -o size=4k berth-probe /mnt'
  const argv = ['--mount', '--propagation', 'private', '--', '/bin/sh', '-c', script]
  try {
    execFileSync(unshare, argv, { stdio: 'ignore', timeout: DAEMON.probeMs })
    answer = true
  } catch {
    answer = false
  }
  return answer
}
