// Actions with the real client as a process against a real control plane: what it lists, asks, waits for and prints.
import { ActionSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { berth, nowhere } from '../../cli/src/testing/berth.ts'
import { Platform } from '../fixtures/platform/platform.ts'

const ACTIONS = [
  { name: 'seed', title: 'Load demo data' },
  { name: 'wipe', title: 'Wipe', confirm: 'Delete all orders?' },
].map((action) => create(ActionSchema, { timeout: durationFromMs(600_000), ...action }))

test('an action is listed, asks, runs, and its output is what stdout gets', async () => {
  const p = await Platform.start('sqlite')
  try {
    const environment = await p.environment('main')
    const env = { BERTH_URL: p.cp.url, BERTH_TOKEN: p.cp.token, BERTH_CONFIG_DIR: nowhere() }
    const where = ['-e', `id:${environment.id}`]
    const early = await berth(['actions', 'run', 'seed', ...where], { env })
    expect([early.code, early.stderr]).toEqual([6, expect.stringContaining('was never deployed')])

    p.executor.script = (attempt) => {
      attempt.emit({ case: 'actions', value: { actions: ACTIONS } })
      attempt.succeed()
    }
    await p.settled((await p.deploy(environment.id)).body.id)
    p.executor.script = (attempt) => {
      attempt.say('200 orders\n')
      attempt.succeed()
    }
    const unasked = await berth(['actions', 'run', 'wipe', ...where], { env })
    expect(unasked.stderr).toContain('wipe asks first: Delete all orders? Nothing was started')
    expect(unasked.code).toBe(2)
    const unknown = await berth(['actions', 'run', 'wpie', ...where], { env })
    expect([unknown.code, unknown.stderr]).toEqual([5, expect.stringContaining('mean wipe?')])
    const ran = await berth(['actions', 'run', 'wipe', ...where, '--yes', '--wait'], { env })
    expect(ran, ran.stderr).toMatchObject({ code: 0, stdout: '200 orders\n' })
    const { stdout } = await berth(['actions', ...where], { env })
    expect(stdout).toMatch(
      /^seed\tLoad demo data\t-\t-\t-\tenabled\t-\t-\t-\t-\t-\nwipe\tWipe\t-\t\S+Z\tsucceeded/,
    )
  } finally {
    await p.close()
  }
})
