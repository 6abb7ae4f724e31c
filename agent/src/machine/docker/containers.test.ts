// Containers on a real engine: limits are set and work, nothing of the host gets in, and how containers end.
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../test/fixtures/platform/components.ts'
import { eventually } from '../../../../test/fixtures/server/deployment.ts'
import {
  createContainer,
  hasShell,
  inspectContainer,
  inspectOwned,
  killContainer,
  listOwnedContainers,
  openFiles,
  removeContainer,
  setRestartPolicy,
  startContainer,
  stopContainer,
  waitContainer,
} from './containers.ts'
import { DockerFixture } from './engine.testing.ts'
import { getContainer } from './engine.ts'
import { type EngineEvent, events } from './events.ts'
import { tailLogs } from './logs.ts'
import { volumeName } from './names.ts'
import { ensureVolume, listOwnedVolumes, removeVolume } from './volumes.ts'

let fixture: DockerFixture
const MiB = 1_024 * 1_024

test('files that may be open: our number, or what this machine allows', () => {
  const limits = (hard: string) =>
    `Limit  Soft Limit\nMax open files            1024                 ${hard} files\n`
  expect(openFiles(limits('524288'))).toBe(65_536)
  expect(openFiles(limits('unlimited'))).toBe(65_536)
  expect(openFiles(limits('20000'))).toBe(20_000)
})

describe.skipIf(!dockerEngine())('a container', () => {
  beforeAll(() => {
    fixture = new DockerFixture()
  })
  afterAll(() => fixture.close())
  const raw = async (id: string) => {
    const { Config, ...rest } = await (await getContainer(fixture.engine, id)).inspect()
    return { ...rest, Config: Config as Record<string, unknown> }
  }
  const output = (id: string) => tailLogs(fixture.engine, id, 1_000)

  test('has every limit of the table, and no way to the host', async () => {
    const id = await createContainer(
      fixture.engine,
      await fixture.spec('true', { cpus: 0.5, pids: 100 }),
    )
    const { HostConfig, Config, NetworkSettings } = await raw(id)
    expect(HostConfig).toMatchObject({
      Memory: 64 * MiB,
      MemorySwap: 64 * MiB,
      NanoCpus: 500_000_000,
      PidsLimit: 100,
      Init: true,
      SecurityOpt: ['no-new-privileges'],
      CapDrop: ['ALL'],
      OomScoreAdj: 500,
      LogConfig: { Type: 'local', Config: { 'max-size': '20m', 'max-file': '5' } },
      RestartPolicy: { Name: 'no' },
      Ulimits: [{ Name: 'nofile', Soft: openFiles(), Hard: openFiles() }],
      Privileged: false,
      PublishAllPorts: false,
      ReadonlyRootfs: false,
      PidMode: '',
      UTSMode: '',
      IpcMode: 'private',
    })
    expect(HostConfig.CapAdd).toHaveLength(8)
    expect(HostConfig.Devices ?? []).toEqual([])
    expect(HostConfig.PortBindings ?? {}).toEqual({})
    expect(NetworkSettings.Ports).toEqual({})
    expect(Config.StopTimeout).toBe(10)
    expect(HostConfig.NetworkMode).toBe(`${fixture.settings.accountPrefix}1`)
  })

  test('feels its limits', async () => {
    const script =
      'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; ulimit -n; cat /proc/self/oom_score_adj; grep -E "CapEff|NoNewPrivs" /proc/self/status; chown 1000 /tmp && echo chowned; mknod /dev/x b 1 1 2>/dev/null || echo no-device'
    const { id, exitCode } = await fixture.run(script)
    expect((await output(id)).split('\n')).toEqual([
      String(64 * MiB),
      String(openFiles()),
      '500',
      'CapEff:\t00000000000005eb',
      'NoNewPrivs:\t1',
      'chowned',
      'no-device',
      '',
    ])
    expect(exitCode).toBe(0)
  })

  test('of untrusted code has no capability and a root that cannot be written', async () => {
    const script =
      'grep CapEff /proc/self/status; touch /x 2>/dev/null || echo read-only; touch /tmp/x && echo tmp; chown 1000 /tmp/x 2>/dev/null || echo no-chown'
    const { id } = await fixture.run(script, { untrusted: true })
    expect(await output(id)).toBe('CapEff:\t0000000000000000\nread-only\ntmp\nno-chown\n')
  })

  test('cannot start more processes than it may', async () => {
    const script = 'for n in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo survived'
    const { id, exitCode } = await fixture.run(script, { pids: 6 })
    expect(exitCode).not.toBe(0)
    expect(await output(id)).toContain("can't fork")
  })

  test('that needs more memory than it may is seen as such', async () => {
    const script = 'awk \'BEGIN { s = "xxxxxxxxxxxxxxxx"; while (1) s = s s }\''
    const { id, exitCode, outOfMemory } = await fixture.run(script, { memoryBytes: 24 * MiB })
    expect({ exitCode, outOfMemory }).toEqual({ exitCode: 137, outOfMemory: true })
    expect(await inspectContainer(fixture.engine, id)).toMatchObject({
      state: 'exited',
      exitCode: 137,
      outOfMemory: true,
      restarts: 0,
      address: undefined,
      pid: undefined,
    })
  })

  test('gets its variables from mounted files, without one value in its configuration', async () => {
    const secret = 'canary "quoted" $HOME `x`\nsecond line'
    const folder = fixture.write({
      'variables.sh': `TOKEN='${secret.replaceAll("'", "'\\''")}'\n`,
      'launch.sh': 'set -a\n. /run/berth/variables.sh\nset +a\nexec "$@"\n',
    })
    chmodSync(folder, 0o700) // mounts the files, not the folder
    const mount = (name: string) => ({
      source: join(folder, name),
      target: `/run/berth/${name}`,
    })
    const { id, exitCode } = await fixture.run('', {
      entrypoint: ['/bin/sh', '/run/berth/launch.sh', '/bin/sh', '-c', 'printf %s "$TOKEN"'],
      command: null,
      env: ['PORT=3000'],
      mounts: { file: [mount('variables.sh'), mount('launch.sh')], volumes: [] },
    })
    expect(exitCode).toBe(0)
    expect(await output(id)).toBe(`${secret}\n`)
    const seen = JSON.stringify(await raw(id))
    expect(seen).not.toContain('canary')
    expect(seen).toContain('PORT=3000')

    const { id: other } = await fixture.run('echo x > /run/berth/launch.sh', {
      mounts: { file: [mount('launch.sh')], volumes: [] },
    })
    expect(await output(other)).toMatch(/Read-only file system/)
  })

  test('a file that is not there fails the creation, and nothing is made on the host', async () => {
    const source = join(fixture.folder, 'not-there')
    const spec = await fixture.spec('true', {
      mounts: { file: [{ source, target: '/x' }], volumes: [] },
    })
    await expect(createContainer(fixture.engine, spec)).rejects.toMatchObject({ kind: 'refused' })
    expect(await inspectContainer(fixture.engine, spec.name)).toBeUndefined()
  })

  test('of another owner is not found by its name', async () => {
    const spec = await fixture.spec('true')
    const id = await createContainer(fixture.engine, spec)
    expect(await inspectOwned(fixture.engine, fixture.settings, spec.name)).toMatchObject({ id })
    const other = { owner: 'somebody-else' }
    expect(await inspectOwned(fixture.engine, other, spec.name)).toBeUndefined()
  })

  test('keeps data in a named volume', async () => {
    const name = volumeName(fixture.settings, 1, 'data')
    await ensureVolume(fixture.engine, { name, labels: fixture.labels(1) })
    await ensureVolume(fixture.engine, { name, labels: fixture.labels(1) })
    const foreign = ensureVolume(fixture.engine, { name, labels: { 'dev.berth.agent': 'other' } })
    await expect(foreign).rejects.toMatchObject({ kind: 'conflict' })
    const volumes = [{ name, path: '/data', readOnly: false }]
    const first = await fixture.run('echo kept > /data/f', { mounts: { file: [], volumes } })
    const second = await fixture.run('cat /data/f; touch /data/g', {
      mounts: { file: [], volumes: [{ name, path: '/data', readOnly: true }] },
    })
    const lines = await output(second.id) // two streams have no common order
    expect(lines).toMatch(/^kept$/m)
    expect(lines).toMatch(/^touch: .*Read-only file system$/m)
    expect(await removeVolume(fixture.engine, name)).toBe('in_use')
    for (const { id } of [first, second]) await removeContainer(fixture.engine, id)
    expect(
      (await listOwnedVolumes(fixture.engine, fixture.settings, 1)).map((v) => v.name),
    ).toEqual([name])
    expect(await removeVolume(fixture.engine, name)).toBe('removed')
    expect(await removeVolume(fixture.engine, name)).toBe('removed')
  })

  test('runs, is seen at its address, is stopped with SIGTERM, starts again, goes', async () => {
    const id = await fixture.start(
      'trap "echo bye; exit 7" TERM; echo up; while true; do sleep 0.1; done',
    )
    await eventually(async () => (await output(id)).includes('up'), 'its first line')
    const seen = await inspectContainer(fixture.engine, id)
    expect(seen).toMatchObject({
      id,
      state: 'running',
      outOfMemory: false,
      labels: fixture.labels(1),
    })
    const [a, b] = fixture.settings.networkPool.split('.')
    expect(seen?.address).toMatch(new RegExp(`^${a}\\.${b}\\.`))
    expect(Date.parse(seen?.startedAt ?? '')).toBeGreaterThan(0)
    await setRestartPolicy(fixture.engine, id, 'unless-stopped')
    await stopContainer(fixture.engine, id, 10_000)
    await stopContainer(fixture.engine, id, 10_000)
    expect(await inspectContainer(fixture.engine, id)).toMatchObject({
      state: 'exited',
      exitCode: 7,
    })
    expect(await output(id)).toBe('up\nbye\n')
    await startContainer(fixture.engine, id)
    await startContainer(fixture.engine, id)
    const ended = waitContainer(fixture.engine, id)
    await setRestartPolicy(fixture.engine, id, 'no')
    await killContainer(fixture.engine, id)
    expect((await ended).exitCode).toBe(137)
    await killContainer(fixture.engine, id)
    await removeContainer(fixture.engine, id)
    await removeContainer(fixture.engine, id)
    expect(await inspectContainer(fixture.engine, id)).toBeUndefined()
    await stopContainer(fixture.engine, id, 1_000)
    await expect(startContainer(fixture.engine, id)).rejects.toMatchObject({ kind: 'not_found' })
  })

  test('that ends by itself comes back once it may, and its restarts are counted', async () => {
    const id = await fixture.start('exit 3', { restart: 'unless-stopped' })
    await eventually(
      async () => ((await inspectContainer(fixture.engine, id))?.restarts ?? 0) > 1,
      'two restarts',
    )
    await removeContainer(fixture.engine, id)
  })

  test('is waited for no longer than the signal lets', async () => {
    const id = await fixture.start('sleep 600')
    const abort = new AbortController()
    const ended = waitContainer(fixture.engine, id, abort.signal)
    abort.abort()
    await expect(ended).rejects.toMatchObject({ kind: 'canceled' })
    await removeContainer(fixture.engine, id)
  })

  test('says whether it has a shell before it runs', async () => {
    const id = await createContainer(fixture.engine, await fixture.spec('true'))
    expect(await hasShell(fixture.engine, id)).toBe(true)
    await fixture.build(
      { Dockerfile: 'FROM scratch\nCOPY x /x\n', x: 'x' },
      { tag: `${fixture.settings.owner}/bare:1` },
    )
    const bare = await fixture.spec('', {
      image: `${fixture.settings.owner}/bare:1`,
      command: ['/x'],
    })
    const bareId = await createContainer(fixture.engine, bare)
    expect(await hasShell(fixture.engine, bareId)).toBe(false)
    await removeContainer(fixture.engine, bareId)
  })

  test('is listed by owner and environment; a taken name is a conflict, a missing image not found', async () => {
    const spec = await fixture.spec('true', { labels: fixture.labels(2) })
    const id = await createContainer(fixture.engine, spec)
    const listed = await listOwnedContainers(fixture.engine, fixture.settings, 2)
    expect(listed).toMatchObject([{ id, name: spec.name, state: 'created' }])
    expect(await listOwnedContainers(fixture.engine, { owner: 'nobody' })).toEqual([])
    await expect(createContainer(fixture.engine, spec)).rejects.toMatchObject({ kind: 'conflict' })
    await expect(
      createContainer(fixture.engine, await fixture.spec('true', { image: 'not/there:1' })),
    ).rejects.toMatchObject({ kind: 'not_found' })
  })

  test('tells its life in events', async () => {
    const abort = new AbortController()
    const seen: EngineEvent[] = []
    const spec = await fixture.spec('exit 4')
    const stream = events(fixture.engine, abort.signal)
    const first = stream.next() // opens the stream
    const id = await createContainer(fixture.engine, spec)
    const loop = (async () => {
      let { value, done } = await first
      while (!done && value) {
        if (value.kind === 'container' && value.id === id) seen.push(value)
        if (value.id === id && value.action === 'die') abort.abort()
        ;({ value, done } = await stream.next())
      }
    })()
    // the stream may open after the creation, so only events from the start on count
    await eventually(async () => {
      if (seen.length > 0) return true
      await startContainer(fixture.engine, id)
      return seen.some(({ action }) => action === 'die')
    }, 'the events of the container')
    await loop
    expect(seen.map(({ action }) => action)).toContain('start')
    expect(seen.at(-1)).toMatchObject({ action: 'die', exitCode: 4, labels: fixture.labels(1) })
  })
})
