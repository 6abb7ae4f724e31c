// The warm-up of a runner works and leaves nothing behind.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readSettings } from '../settings.ts'
import { warmUp } from './warm-up.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'berth-warm-up-'))
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

test('every part is done, but for the edge that is not there; only what is kept anyway is left', async () => {
  const settings = readSettings({
    BERTH_STATE_DIR: join(dir, 'state'),
    BERTH_RUN_DIR: dir,
    DOCKER_HOST: `unix://${join(dir, 'no-engine')}`,
  })
  expect(await warmUp(settings)).toEqual([expect.stringMatching(/edge/)])
  expect(readdirSync(dir)).toEqual(['state'])
  expect(readdirSync(join(dir, 'state')).toSorted()).toEqual(['bin', 'ledger.db'])
})
