// A separate engine is killed: its containers come back and are found unchanged, the orphaned command of a build is
// ended, and a build cache is pruned only if no other user has data on the engine.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildImage } from '../../agent/src/machine/docker/build/build.ts'
import { engineFacts } from '../../agent/src/machine/docker/engine.ts'
import { measureEngine, pruneBuildCache } from '../../agent/src/machine/docker/engine-info.ts'
import { labelsOf, shownImage } from '../../agent/src/machine/docker/names.ts'
import { findBuildOrphans } from '../../agent/src/machine/process/build-orphans.ts'
import { hasMarker, listProcesses } from '../../agent/src/machine/process/processes.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { collectCache, isEngineExclusive } from '../../agent/src/resources/cache.ts'
import { type DockerEngine, startDockerEngine } from '../../scripts/docker-engine.ts'
import { BUSYBOX_IMAGE, makeBusyboxImage } from '../fixtures/docker/images.ts'
import { dockerEngine, locate } from '../fixtures/platform/components.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { MaintenanceFixture } from '../fixtures/server/maintenance.ts'
import { Upkeep } from '../fixtures/server/upkeep.ts'

describe.skipIf(!dockerEngine())('an engine that is killed', () => {
  let docker: DockerEngine
  let fixture: MaintenanceFixture
  beforeAll(async () => {
    docker = await startDockerEngine(locate('docker') as string)
    fixture = new MaintenanceFixture(docker)
    // nothing foreign is in it yet
    expect(await isEngineExclusive(fixture.engine, fixture.ledger, fixture.settings)).toBe(true)
    await makeBusyboxImage(docker.socket)
  })
  afterAll(async () => {
    await fixture.close()
    await docker.stop()
  })

  const engineChanges: boolean[] = []
  const onEngine = ({ isExclusive }: { isExclusive: boolean }) =>
    void engineChanges.push(isExclusive)

  it('containers come back, and the orphan of a build goes', async () => {
    await fixture.container(1, 1, BUSYBOX_IMAGE, { restart: 'unless-stopped' })
    await fixture.succeed(1, 1, BUSYBOX_IMAGE)
    const observations = new Observations()
    const upkeep = new Upkeep(fixture.settings, { observations, onEngine })
    try {
      await eventually(() => observations.find(1), 'a look')
      const folder = join(fixture.folder, 'build')
      mkdirSync(folder)
      const marker = `BERTH_TEST_RUN=${fixture.settings.owner}`
      const text = `FROM ${BUSYBOX_IMAGE}\nENV ${marker}\nRUN sleep 3600\n`
      writeFileSync(join(folder, 'Dockerfile'), text)
      const tag = shownImage(fixture.settings, 2, 'web', 1)
      fixture.row('image', tag, 2, 1, { state: 'making' })
      const building = buildImage(fixture.engine, {
        folder,
        dockerfile: 'Dockerfile',
        target: null,
        args: {},
        tag,
        labels: labelsOf(fixture.settings, { environmentId: 2, taskId: 1 }),
        noCache: true,
        signal: new AbortController().signal,
        onStep: () => undefined,
        onText: () => undefined,
      }).catch((error: Error) => error)
      const commands = () => listProcesses().filter(({ pid }) => hasMarker(pid, marker))
      await eventually(() => commands().length > 0 || undefined, 'the command of the build')
      const { dataRoot } = await engineFacts(fixture.engine)
      expect(findBuildOrphans(dataRoot)).toEqual([]) // its engine still waits for it
      const before = observations.version
      await docker.restart('SIGKILL')
      expect(await building).toBeInstanceOf(Error)
      await eventually(() => commands().length === 0 || undefined, 'the end of the orphan')
      await eventually(
        () => fixture.ledger.objects.list({ environmentId: 2 }).length === 0 || undefined,
        'the end of its row',
      )
      await eventually(
        () => observations.find(1)?.services[0]?.state === 'running' || undefined,
        'the container',
      )
      expect(observations.find(1)?.degradedReason).toBe('')
      expect(observations.version).toBeGreaterThanOrEqual(before)
      expect(engineChanges.every(Boolean)).toBe(true)
    } finally {
      upkeep.close()
    }
  })

  it('keeps the young cache: a stage that is in no image is not built again', async () => {
    const folder = join(fixture.folder, 'stages')
    mkdirSync(folder)
    const stages = `FROM ${BUSYBOX_IMAGE} AS first
RUN dd if=/dev/urandom of=/out bs=1k count=64
FROM ${BUSYBOX_IMAGE}
COPY --from=first /out /out
`
    writeFileSync(join(folder, 'Dockerfile'), stages)
    const build = async (target: string | null): Promise<boolean | undefined> => {
      let isCached: boolean | undefined
      await buildImage(fixture.engine, {
        folder,
        dockerfile: 'Dockerfile',
        target,
        args: {},
        tag: shownImage(fixture.settings, 3, target ?? 'web', 1),
        labels: labelsOf(fixture.settings, { environmentId: 3 }),
        noCache: false,
        signal: new AbortController().signal,
        onStep: ({ name, state, cached }) => {
          if (name.includes('RUN dd') && state === 'done') isCached = cached
        },
        onText: () => undefined,
      })
      return isCached
    }
    expect(await build(null)).toBe(false)
    await collectCache(fixture.engine, fixture.ledger, fixture.settings)
    expect((await measureEngine(fixture.engine, fixture.settings)).cacheBytes).toBeGreaterThan(
      64 * 1_024,
    )
    expect(await build('first')).toBe(true)
    const bounds = { olderMs: 0, keepBytes: 0 }
    expect(await pruneBuildCache(fixture.engine, bounds)).toBeGreaterThan(0)
  })
})
