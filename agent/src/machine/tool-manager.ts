// Finds mise, which installs runtimes (node, python …) for an account. It runs as the environment's account, but every
// environment uses it, so a file that another account could have changed is not used.
import { lstatSync, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import type { AgentSettings } from '../settings.ts'
import { locateProgram } from './process/programs.ts'

const WRITABLE = 0o022
const STICKY = 0o1000

/** Whether only root (or this developer) can replace the file: it and every folder above it. */
export function isOnlyRoots(file: string): boolean {
  const own = process.getuid?.() ?? 0
  try {
    for (let path = realpathSync(file); ; path = dirname(path)) {
      const { uid, mode } = lstatSync(path)
      const isSticky = path !== file && (mode & STICKY) !== 0 // others cannot rename what they do not own
      if ((uid !== 0 && uid !== own) || ((mode & WRITABLE) !== 0 && !isSticky)) return false
      if (path === '/') return true
    }
  } catch {
    return false
  }
}

/** 'unsafe': there is one, but another account could have changed it. */
export function findMise({ mise }: Pick<AgentSettings, 'mise'>): string | 'unsafe' | undefined {
  const found = mise ?? locateProgram('mise')
  if (!found) return undefined
  return isOnlyRoots(found) ? found : 'unsafe'
}
