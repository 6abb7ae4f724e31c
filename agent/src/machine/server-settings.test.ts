import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, hostname, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { defaultServerSettings } from '@berth/shared'
import { ServerSettingsSchema } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { nameable, readServerSettings, saveServerSettings, serverName } from './server-settings.ts'

const GiB = 1_024 ** 3
let stateDir: string
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'berth-server-'))
})
afterEach(() => rmSync(stateDir, { recursive: true, force: true }))

const save = (given: MessageInitShape<typeof ServerSettingsSchema>): void =>
  saveServerSettings({ stateDir }, create(ServerSettingsSchema, given))

const usual = defaultServerSettings({ cpus: availableParallelism(), memoryBytes: totalmem() })
const BY_SIZE = {
  buildMemoryBytes: usual.build_memory_bytes,
  buildCpus: usual.build_cpus,
  buildTimeoutMs: null,
  buildSlots: usual.build_slots,
  taskSlots: usual.task_slots,
  isShared: false,
}

test('nothing was sent: the size of the machine decides, under its own name', () => {
  expect(readServerSettings({ stateDir })).toEqual({ name: hostname(), ...BY_SIZE })
})

test('what is sent counts, and what is left out has its default', () => {
  save({
    name: 'fra-1',
    buildMemoryBytes: BigInt(3 * GiB),
    buildCpuMillis: 1_500,
    buildTimeout: durationFromMs(90_000),
    buildSlots: 5,
    taskSlots: 7,
    shared: true,
  })
  expect(readServerSettings({ stateDir })).toEqual({
    name: 'fra-1',
    buildMemoryBytes: 3 * GiB,
    buildCpus: 1.5,
    buildTimeoutMs: 90_000,
    buildSlots: 5,
    taskSlots: 7,
    isShared: true,
  })
  expect(nameable({ stateDir }, ['pr-31'])).toEqual([])
  save({ name: 'fra-2' })
  expect(readServerSettings({ stateDir })).toEqual({ name: 'fra-2', ...BY_SIZE })
  expect(serverName({ stateDir })).toBe('fra-2')
  expect(nameable({ stateDir }, ['pr-31'])).toEqual(['pr-31'])
})

test('a damaged file counts as none', () => {
  writeFileSync(join(stateDir, 'server.json'), '{"name":')
  expect(readServerSettings({ stateDir })).toEqual({ name: hostname(), ...BY_SIZE })
})
