// Which Node.js and which file the SSH accounts start; they must be able to enter both folders.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readSettings } from '../../settings.ts'
import { renderLauncher } from './launcher.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-launcher-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const lineOf = (): string => {
  const command = join(folder, 'ssh-session.mjs')
  const settings = readSettings({ BERTH_DEV: '1', BERTH_SSH_COMMAND: command })
  return renderLauncher(settings, ['/root/berth/node', '/root/berth/agent/src/main.ts'])
}

test('a forced command of its own is started by the Node.js beside it', () => {
  writeFileSync(join(folder, 'node'), '')
  expect(lineOf()).toContain(`exec '${folder}/node' `)
  expect(lineOf()).toContain(` '${folder}/ssh-session.mjs' `)
  expect(lineOf()).not.toContain('/root/berth')
})

test('and by the agent’s own where there is none', () => {
  expect(lineOf()).toContain("exec '/root/berth/node' ")
})
