// Disk space on a small separate file system: the message that refuses a deployment, and the monitor that stops a step.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Ledger } from '../../agent/src/journal/ledger.ts'
import { openMeter, watchDiskSpace } from '../../agent/src/machine/disk-space.ts'
import { judgeDiskSpace, recordGrowth } from '../../agent/src/resources/admission.ts'
import { readSettings } from '../../agent/src/settings.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

const MB = 1_024 ** 2
const GB = 1_024 ** 3

describe.skipIf(!isRoot)('a small disk', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'berth-room-'))
    // tmpfs takes memory only when files are written
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1030m', 'tmpfs', folder])
  })
  afterAll(() => {
    execFileSync('umount', ['-l', folder])
    rmSync(folder, { recursive: true })
  })

  it('is refused with its figures, and with those who take the most; collection is tried first', async () => {
    const settings = { ...readSettings({ BERTH_STATE_DIR: folder }), stateDir: folder }
    const ledger = new Ledger(settings)
    try {
      ledger.usage.setName(31, 'pr-31')
      ledger.usage.setBytes(31, 4.1 * GB)
      let collections = 0
      const collect = async () => {
        collections += 1
      }
      const request = { environmentId: 42, name: 'pr-42', collect }
      const first = await judgeDiskSpace(settings, ledger, request)
      expect(first).toMatchObject({
        ok: false,
        message: expect.stringMatching(
          / has 1\.0 GB free; this deployment needs about 2\.0 GB and 2\.0 GB stay reserved\. Largest: pr-31 4\.1 GB\. Nothing was changed\.$/,
        ),
      })
      expect(collections).toBe(1)
      const meter = openMeter([folder])
      writeFileSync(join(folder, 'growth'), Buffer.alloc(2 * MB, 1))
      meter.sample()
      rmSync(join(folder, 'growth'))
      recordGrowth(ledger, { environmentId: 42, taskId: 1 }, meter)
      expect(ledger.usage.growths(42, folder)[0]).toBeGreaterThanOrEqual(2 * MB)
      const second = await judgeDiskSpace(settings, ledger, request)
      expect(second).toMatchObject({ message: expect.stringContaining('about 0.5 GB') })
    } finally {
      ledger.close()
    }
  })

  it('stops a step when half of the reserve is gone', async () => {
    const signal = new AbortController().signal
    const meter = openMeter([folder])
    const options = { meter, development: false, largest: [], server: 'fra-1', signal, everyMs: 10 }
    const watch = watchDiskSpace(options)
    expect(watch.problem).toBeUndefined()
    const fired = new Promise((resolve) => watch.signal.addEventListener('abort', resolve))
    const file = join(folder, 'filling')
    writeFileSync(file, Buffer.alloc(16 * MB, 1))
    await fired
    expect(watch.problem).toMatch(/had only 1\.0 GB left below .*: the step was stopped/)
    watch.close()
    rmSync(file)
  })

  it('fails a deployment in its first step, with the code for it', async () => {
    mkdirSync(join(folder, 'host'))
    const host = new AgentHost(join(folder, 'host'))
    try {
      const repository = host.repository()
      repository.commit({ '.service.yml': 'manual: { deploy: [echo hello] }\n' })
      const deployment = await host.deploy(repository, { env: { BERTH_DEV: '' } })
      const verdict = await deployment.verdict()
      expect(verdict).toMatchObject({
        state: AttemptState.FAILED,
        code: FailureCode.DISK_FULL,
        failedStepId: 'admit',
      })
      expect(verdict.message).toMatch(/stay reserved\. Nothing was changed\.$/)
    } finally {
      await host.close()
    }
  })
})
