import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { missing } from '../../../test/fixtures/platform/components.ts'
import { freePort } from '../../../test/fixtures/server/installation-docker.ts'
import { silentLog } from '../log.ts'
import { readSettings } from '../settings.ts'
import { renderMetrics, serveMetrics } from './metrics.ts'
import { Observations } from './observations.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-metrics-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const observations = new Observations()
const service = (name: string, state: string) => ({
  ...{ name, state, health: 'none', restarts: 0, outOfMemory: false },
  ...{ replicas: 1, replicasUp: 1 },
})
const of = { commitSha: '', fence: 1n }
observations.set({
  ...{ environmentId: 1, ...of, degradedReason: '' },
  services: [service('web', 'running'), service('db', 'running')],
})
observations.set({
  ...{ environmentId: 2, ...of, degradedReason: 'web ended 5 times.' },
  services: [service('web', 'restarting')],
})
const parts = {
  manager: { liveIds: () => ['a'] },
  host: {
    pulse: () => ({ spoolBytes: 12n, diskFreeBytes: 34n, dockerOk: true, proxyOk: true }),
    info: () =>
      ({
        parts: [
          { name: 'docker', version: '28.2' },
          { name: 'sshd', version: '' },
        ],
      }) as never,
  },
  observations,
  isConnected: () => true,
}

test('figures of the agent', () => {
  const lines = renderMetrics(parts).split('\n')
  expect(lines).toEqual(
    expect.arrayContaining([
      'berth_agent_connected 1',
      'berth_agent_attempts 1',
      'berth_agent_environments{state="running"} 1',
      'berth_agent_environments{state="degraded"} 1',
      'berth_agent_services{state="running"} 2',
      'berth_agent_services{state="restarting"} 1',
      'berth_agent_part_up{part="docker"} 1',
      'berth_agent_part_up{part="sshd"} 0',
      'berth_agent_log_bytes_waiting 12',
      'berth_agent_disk_free_bytes 34',
    ]),
  )
})

test.skipIf(missing('promtool'))('promtool finds nothing to complain about', () => {
  const input = renderMetrics(parts)
  const { status, stderr } = spawnSync('promtool', ['check', 'metrics'], { input })
  expect([status, stderr.toString()]).toEqual([0, ''])
})

test('served only for the token in the file, which may change', async () => {
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, 'first\n', { mode: 0o600 })
  const port = await freePort()
  const settings = readSettings({
    BERTH_METRICS_LISTEN: `127.0.0.1:${port}`,
    BERTH_METRICS_TOKEN_FILE: tokenFile,
  })
  const stop = serveMetrics({ ...parts, settings, log: silentLog })
  const ask = async (token?: string, path = '/metrics'): Promise<number> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    return (await fetch(`http://127.0.0.1:${port}${path}`, { headers })).status
  }
  try {
    expect(await ask('first')).toBe(200)
    expect([await ask(), await ask('second'), await ask('first', '/')]).toEqual([401, 401, 404])
    writeFileSync(tokenFile, 'second\n')
    expect([await ask('first'), await ask('second')]).toEqual([401, 200])
    writeFileSync(tokenFile, '\n')
    expect(await ask('')).toBe(401)
    rmSync(tokenFile)
    expect(await ask('second')).toBe(500)
  } finally {
    stop()
  }
})

test('an address needs a token', () => {
  expect(() => readSettings({ BERTH_METRICS_LISTEN: '127.0.0.1:9465' })).toThrow(
    'BERTH_METRICS_TOKEN_FILE must be set',
  )
  expect(readSettings({}).metrics).toBeUndefined()
})
