// Containers on a real engine: that the limits are set and work, that nothing of the host gets in, how they end.
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
import { type EngineEvent, events } from './events.ts'
import { DockerLab } from './lab.testing.ts'
import { tailLogs } from './logs.ts'
import { volumeName } from './names.ts'
import { ensureVolume, listOwnedVolumes, removeVolume } from './volumes.ts'

let lab: DockerLab
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
    lab = new DockerLab()
  })
  afterAll(() => lab.close())
  const raw = (id: string) =>
    lab.engine.ask<{
      HostConfig: Record<string, unknown>
      Config: Record<string, unknown>
      NetworkSettings: { Ports: object }
    }>({ method: 'GET', path: `/containers/${id}/json` })
  const output = (id: string) => tailLogs(lab.engine, id, 1_000)

  test('has every limit of the table, and no way to the host', async () => {
    const id = await createContainer(lab.engine, await lab.spec('true', { cpus: 0.5, pids: 100 }))
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
    expect(HostConfig.NetworkMode).toBe(`${lab.settings.accountPrefix}1`)
  })

  test('feels its limits', async () => {
    const script =
      'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; ulimit -n; cat /proc/self/oom_score_adj; grep -E "CapEff|NoNewPrivs" /proc/self/status; chown 1000 /tmp && echo chowned; mknod /dev/x b 1 1 2>/dev/null || echo no-device'
    const { id, exitCode } = await lab.run(script)
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
    const { id } = await lab.run(script, { untrusted: true })
    expect(await output(id)).toBe('CapEff:\t0000000000000000\nread-only\ntmp\nno-chown\n')
  })

  test('cannot start more processes than it may', async () => {
    const script = 'for n in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo survived'
    const { id, exitCode } = await lab.run(script, { pids: 6 })
    expect(exitCode).not.toBe(0)
    expect(await output(id)).toContain("can't fork")
  })

  test('that needs more memory than it may is seen as such', async () => {
    const script = 'awk \'BEGIN { s = "xxxxxxxxxxxxxxxx"; while (1) s = s s }\''
    const { id, exitCode, outOfMemory } = await lab.run(script, { memoryBytes: 24 * MiB })
    expect({ exitCode, outOfMemory }).toEqual({ exitCode: 137, outOfMemory: true })
    expect(await inspectContainer(lab.engine, id)).toMatchObject({
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
    const folder = lab.write({
      'variables.sh': `TOKEN='${secret.replaceAll("'", "'\\''")}'\n`,
      'launch.sh': 'set -a\n. /run/berth/variables.sh\nset +a\nexec "$@"\n',
    })
    chmodSync(folder, 0o700) // the files are mounted, not the folder
    const mount = (name: string) => ({
      source: join(folder, name),
      target: `/run/berth/${name}`,
    })
    const { id, exitCode } = await lab.run('', {
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

    const { id: other } = await lab.run('echo x > /run/berth/launch.sh', {
      mounts: { file: [mount('launch.sh')], volumes: [] },
    })
    expect(await output(other)).toMatch(/Read-only file system/)
  })

  test('a file that is not there fails the creation, and nothing is made on the host', async () => {
    const source = join(lab.folder, 'not-there')
    const spec = await lab.spec('true', {
      mounts: { file: [{ source, target: '/x' }], volumes: [] },
    })
    await expect(createContainer(lab.engine, spec)).rejects.toMatchObject({ kind: 'refused' })
    expect(await inspectContainer(lab.engine, spec.name)).toBeUndefined()
  })

  test('of another owner is not found by its name', async () => {
    const spec = await lab.spec('true')
    const id = await createContainer(lab.engine, spec)
    expect(await inspectOwned(lab.engine, lab.settings, spec.name)).toMatchObject({ id })
    const other = { owner: 'somebody-else' }
    expect(await inspectOwned(lab.engine, other, spec.name)).toBeUndefined()
  })

  test('keeps data in a named volume', async () => {
    const name = volumeName(lab.settings, 1, 'data')
    await ensureVolume(lab.engine, { name, labels: lab.labels(1) })
    await ensureVolume(lab.engine, { name, labels: lab.labels(1) })
    const foreign = ensureVolume(lab.engine, { name, labels: { 'dev.berth.agent': 'other' } })
    await expect(foreign).rejects.toMatchObject({ kind: 'conflict' })
    const volumes = [{ name, path: '/data', readOnly: false }]
    const first = await lab.run('echo kept > /data/f', { mounts: { file: [], volumes } })
    const second = await lab.run('cat /data/f; touch /data/g', {
      mounts: { file: [], volumes: [{ name, path: '/data', readOnly: true }] },
    })
    const lines = await output(second.id) // of two streams: in any order
    expect(lines).toMatch(/^kept$/m)
    expect(lines).toMatch(/^touch: .*Read-only file system$/m)
    expect(await removeVolume(lab.engine, name)).toBe('in_use')
    for (const { id } of [first, second]) await removeContainer(lab.engine, id)
    expect((await listOwnedVolumes(lab.engine, lab.settings, 1)).map((v) => v.name)).toEqual([name])
    expect(await removeVolume(lab.engine, name)).toBe('removed')
    expect(await removeVolume(lab.engine, name)).toBe('removed')
  })

  test('runs, is seen at its address, is stopped with SIGTERM, starts again, goes', async () => {
    const id = await lab.start(
      'trap "echo bye; exit 7" TERM; echo up; while true; do sleep 0.1; done',
    )
    await eventually(async () => (await output(id)).includes('up'), 'its first line')
    const seen = await inspectContainer(lab.engine, id)
    expect(seen).toMatchObject({ id, state: 'running', outOfMemory: false, labels: lab.labels(1) })
    const [a, b] = lab.settings.networkPool.split('.')
    expect(seen?.address).toMatch(new RegExp(`^${a}\\.${b}\\.`))
    expect(Date.parse(seen?.startedAt ?? '')).toBeGreaterThan(0)
    await setRestartPolicy(lab.engine, id, 'unless-stopped')
    await stopContainer(lab.engine, id, 10_000)
    await stopContainer(lab.engine, id, 10_000)
    expect(await inspectContainer(lab.engine, id)).toMatchObject({ state: 'exited', exitCode: 7 })
    expect(await output(id)).toBe('up\nbye\n')
    await startContainer(lab.engine, id)
    await startContainer(lab.engine, id)
    const ended = waitContainer(lab.engine, id)
    await setRestartPolicy(lab.engine, id, 'no')
    await killContainer(lab.engine, id)
    expect((await ended).exitCode).toBe(137)
    await killContainer(lab.engine, id)
    await removeContainer(lab.engine, id)
    await removeContainer(lab.engine, id)
    expect(await inspectContainer(lab.engine, id)).toBeUndefined()
    await stopContainer(lab.engine, id, 1_000)
    await expect(startContainer(lab.engine, id)).rejects.toMatchObject({ kind: 'not_found' })
  })

  test('that ends by itself comes back once it may, and its restarts are counted', async () => {
    const id = await lab.start('exit 3', { restart: 'unless-stopped' })
    await eventually(
      async () => ((await inspectContainer(lab.engine, id))?.restarts ?? 0) > 1,
      'two restarts',
    )
    await removeContainer(lab.engine, id)
  })

  test('is waited for no longer than the signal lets', async () => {
    const id = await lab.start('sleep 600')
    const abort = new AbortController()
    const ended = waitContainer(lab.engine, id, abort.signal)
    abort.abort()
    await expect(ended).rejects.toMatchObject({ kind: 'canceled' })
    await removeContainer(lab.engine, id)
  })

  test('says whether it has a shell before it runs', async () => {
    const id = await createContainer(lab.engine, await lab.spec('true'))
    expect(await hasShell(lab.engine, id)).toBe(true)
    await lab.build(
      { Dockerfile: 'FROM scratch\nCOPY x /x\n', x: 'x' },
      { tag: `${lab.settings.owner}/bare:1` },
    )
    const bare = await lab.spec('', { image: `${lab.settings.owner}/bare:1`, command: ['/x'] })
    const bareId = await createContainer(lab.engine, bare)
    expect(await hasShell(lab.engine, bareId)).toBe(false)
    await removeContainer(lab.engine, bareId)
  })

  test('is listed by owner and environment; a taken name is a conflict, a missing image not found', async () => {
    const spec = await lab.spec('true', { labels: lab.labels(2) })
    const id = await createContainer(lab.engine, spec)
    const listed = await listOwnedContainers(lab.engine, lab.settings, 2)
    expect(listed).toMatchObject([{ id, name: spec.name, state: 'created' }])
    expect(await listOwnedContainers(lab.engine, { owner: 'nobody' })).toEqual([])
    await expect(createContainer(lab.engine, spec)).rejects.toMatchObject({ kind: 'conflict' })
    await expect(
      createContainer(lab.engine, await lab.spec('true', { image: 'not/there:1' })),
    ).rejects.toMatchObject({ kind: 'not_found' })
  })

  test('tells its life in events', async () => {
    const abort = new AbortController()
    const seen: EngineEvent[] = []
    const spec = await lab.spec('exit 4')
    const stream = events(lab.engine, abort.signal)
    const first = stream.next() // opens it
    const id = await createContainer(lab.engine, spec)
    const loop = (async () => {
      let { value, done } = await first
      while (!done && value) {
        if (value.kind === 'container' && value.id === id) seen.push(value)
        if (value.id === id && value.action === 'die') abort.abort()
        ;({ value, done } = await stream.next())
      }
    })()
    // the stream may open after the creation: what counts is from the start on
    await eventually(async () => {
      if (seen.length > 0) return true
      await startContainer(lab.engine, id)
      return seen.some(({ action }) => action === 'die')
    }, 'the events of the container')
    await loop
    expect(seen.map(({ action }) => action)).toContain('start')
    expect(seen.at(-1)).toMatchObject({ action: 'die', exitCode: 4, labels: lab.labels(1) })
  })
})
