// Closes descriptors that this program inherited from a shell, a script or a service manager. Otherwise every program
// it starts would inherit them too, including commands of environments. Node.js sets close-on-exec on its own
// descriptors, so one without that flag was inherited.
import { closeSync, readdirSync, readFileSync } from 'node:fs'

const CLOSE_ON_EXEC = 0o2000000
const OWN = '/proc/self/fdinfo'

function isInherited(fd: number): boolean {
  try {
    const flags = /^flags:\s+([0-7]+)/m.exec(readFileSync(`${OWN}/${fd}`, 'latin1'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0
  } catch {
    return false // closed meanwhile
  }
}

/** Call it first, before this program opens a descriptor that a child is meant to get. */
export function closeInherited(): void {
  for (const name of readdirSync(OWN)) {
    const fd = Number(name)
    if (fd > 2 && isInherited(fd)) closeSync(fd)
  }
}
