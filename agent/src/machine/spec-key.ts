// Fingerprints of specs that contain secret values. The key is a secret of this server, so a label or a row reveals
// only whether two specs are equal.
import { createHmac, randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentSettings } from '../settings.ts'

function readKey(settings: Pick<AgentSettings, 'stateDir'>): Buffer {
  const file = join(settings.stateDir, 'spec-key')
  try {
    return readFileSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  mkdirSync(settings.stateDir, { recursive: true, mode: 0o711 })
  const own = `${file}.${process.pid}`
  writeFileSync(own, randomBytes(32), { mode: 0o600 })
  try {
    linkSync(own, file) // atomically, and only once: two runners may start concurrently
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(own, { force: true })
  }
  return readFileSync(file)
}

export const fingerprint = (settings: Pick<AgentSettings, 'stateDir'>, text: string): string =>
  createHmac('sha256', readKey(settings)).update(text).digest('hex').slice(0, 32)
