// Facts about the machine these tests run on: checks their shape, which users and the control plane rely on, not the
// values.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { collectFacts } from '../link/answers/facts.ts'
import { silentLog } from '../log.ts'
import { readSettings } from '../settings.ts'
import { Host } from './host.ts'
import { readStatus, removeStatus, writeStatus } from './status.ts'

let dir: string
let host: Host
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'berth-host-'))
  host = new Host(readSettings({ BERTH_STATE_DIR: dir, BERTH_RUN_DIR: dir }), silentLog)
  await host.open()
})
afterEach(() => {
  host.close()
  rmSync(dir, { recursive: true, force: true })
})

test('every part is named, and a missing one says what to do', () => {
  const { parts } = host.info()
  const names = [
    'docker',
    'caddy',
    'git',
    'pty',
    'cgroup',
    'mounts',
    'systemd',
    'users',
    'sshd',
    'firewall',
  ]
  expect(parts.map((p) => p.name)).toEqual(names)
  for (const { version, reason } of parts) expect(version === '').toBe(reason !== '')
  const caddy = parts.find((p) => p.name === 'caddy')
  expect(caddy?.version).toMatch(/^$|^\d+\.\d+\.\d+ \((shipped with Berth|of the distribution)\)$/)
  const git = parts.find((p) => p.name === 'git')
  expect(git?.version).toMatch(/^\d+\.\d+/) // the tests themselves need it
})

test('numbers are there, capabilities follow the parts', () => {
  const info = host.info()
  expect(Number(info.diskBytes)).toBeGreaterThan(Number(info.diskFreeBytes))
  expect(info.maxParallel).toBeGreaterThanOrEqual(2)
  expect(info.bootId).toMatch(/^[0-9a-f-]{36}$/)
  const has = (name: string): boolean => info.parts.some((p) => p.name === name && p.version !== '')
  expect(host.capabilities().includes('manual')).toBe(has('git') && has('users'))
  expect(host.capabilities().includes('docker')).toBe(has('docker'))
  expect(host.takeChanged()).toBe(false)
  expect(
    collectFacts(host, readSettings({ BERTH_STATE_DIR: dir, BERTH_RUN_DIR: dir })).facts.map(
      (f) => f.name,
    ),
  ).toContain('disk.free_bytes')
})

test('the status is believed while its daemon lives, and gone after', () => {
  const settings = readSettings({ BERTH_STATE_DIR: dir, BERTH_RUN_DIR: dir })
  expect(readStatus(settings)).toBeUndefined()
  writeStatus(settings, { phase: 'active', endpoint: 'x:1', since: '', attempts: ['a'] })
  expect(readStatus(settings)).toMatchObject({ phase: 'active', pid: process.pid })
  removeStatus(settings)
  expect(readStatus(settings)).toBeUndefined()
})
