// Descriptors that this program was started with and did not ask for (of a shell, a script, a service manager): each would go
// on to every program that it starts, also to commands of environments. Node.js marks its own ones, so what bears no mark
// is somebody else's.
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

/** At the very start, before this program opens anything that a child is meant to get. */
export function closeInherited(): void {
  for (const name of readdirSync(OWN)) {
    const fd = Number(name)
    if (fd > 2 && isInherited(fd)) closeSync(fd)
  }
}
