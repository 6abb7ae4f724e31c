// What maintenance removes from a real engine and what it leaves alone, and its messages about drift.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inspectContainer, removeContainer } from '../../agent/src/machine/docker/containers.ts'
import { holdsForeign, measureEngine } from '../../agent/src/machine/docker/engine-info.ts'
import { inspectImage } from '../../agent/src/machine/docker/images.ts'
import { showImage } from '../../agent/src/machine/docker/names.ts'
import { listOwnedVolumes } from '../../agent/src/machine/docker/volumes.ts'
import { DriftWatch } from '../../agent/src/maintenance/drift.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { isEngineExclusive } from '../../agent/src/resources/cache.ts'
import { collectEnvironment } from '../../agent/src/resources/garbage.ts'
import { BUSYBOX_IMAGE } from '../fixtures/docker/images.ts'
import { dockerEngine } from '../fixtures/platform/components.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { MaintenanceFixture } from '../fixtures/server/maintenance.ts'

const DAY = 86_400_000

describe.skipIf(!dockerEngine())('collection', () => {
  let fixture: MaintenanceFixture
  beforeAll(() => {
    fixture = new MaintenanceFixture()
  })
  afterAll(() => fixture.close())
  const collect = (environmentId: number, now = Date.now()) =>
    collectEnvironment(fixture.engine, fixture.ledger, fixture.settings, { environmentId, now })
  const names = (environmentId: number): string[] =>
    fixture.ledger.objects.list({ environmentId }).map(({ kind, name }) => `${kind} ${name}`)

  it('keeps the running image and two before it, and everything of others', async () => {
    const tags: string[] = []
    for (const taskId of [1, 2, 3, 4, 5]) tags.push(await fixture.image(1, taskId))
    const foreign = await fixture.image(1, 90, { owner: 'another-agent', isUnknown: true })
    const stranger = await fixture.tag(BUSYBOX_IMAGE, 'stranger/app:1')
    fixture.row('image', tags[0] as string, 1, 1)
    const keepsake = await fixture.tag(tags[0] as string, 'somebody/keeps-this:1')
    const running = await fixture.container(1, 5, tags[4])
    const old = await fixture.container(1, 4, tags[3], { state: 'retired' })
    const failed = await fixture.container(1, 6, tags[4], { state: 'making' })
    const others = await fixture.container(2, 1, BUSYBOX_IMAGE, { owner: 'another-agent' })
    await fixture.succeed(1, 5, tags[4] as string)
    const { removed, problems } = await collect(1)
    expect(problems).toEqual([])
    expect(removed).toEqual([
      `container ${old.name}`,
      `container ${failed.name}`,
      `image ${showImage(tags[0] ?? '')}`,
      `image ${showImage(tags[1] ?? '')}`,
    ])
    for (const tag of tags.slice(2)) expect(await inspectImage(fixture.engine, tag)).toBeDefined()
    for (const tag of tags.slice(0, 2))
      expect(await inspectImage(fixture.engine, tag)).toBeUndefined()
    expect(await inspectContainer(fixture.engine, running.id)).toMatchObject({ state: 'running' })
    expect(await inspectContainer(fixture.engine, old.id)).toBeUndefined()
    for (const other of [foreign, stranger, keepsake, BUSYBOX_IMAGE]) {
      expect(await inspectImage(fixture.engine, other), other).toBeDefined()
    }
    // our row for a container with another agent's label: the row is deleted, the container stays
    expect(await collect(2)).toEqual({ removed: [], problems: [] })
    expect(names(2)).toEqual([])
    expect(await inspectContainer(fixture.engine, others.id)).toMatchObject({ state: 'running' })
    expect(await collect(1)).toEqual({ removed: [], problems: [] })
  })

  it('adopts what carries our label without a row: a lost ledger stops nothing that runs', async () => {
    const image = await fixture.image(3, 1, { isUnknown: true })
    const running = await fixture.container(3, 1, image, { isUnknown: true })
    const stopped = await fixture.container(3, 2, image, { isUnknown: true, isStopped: true })
    const volume = await fixture.volume(3, 'data', { isUnknown: true })
    expect(names(3)).toEqual([])
    const { removed } = await collect(3)
    expect(removed).toEqual([`container ${stopped.name}`])
    expect(names(3).toSorted()).toEqual(
      [`container ${running.name}`, `image ${image}`, `volume ${volume}`].toSorted(),
    )
    expect(await inspectContainer(fixture.engine, running.id)).toMatchObject({ state: 'running' })
    // a row without an object is deleted
    fixture.row('image', `${image}0`, 3, 9)
    fixture.row('network', 'nothing', 3, 9)
    await collect(3)
    expect(names(3)).toHaveLength(3)
  })

  it('flags volumes that are not named any more and removes them after a week; a pulled image in use stays', async () => {
    const image = await fixture.image(4, 1)
    await fixture.container(4, 1, image)
    const [kept, left] = [await fixture.volume(4, 'kept'), await fixture.volume(4, 'left')]
    const network = await fixture.network(4)
    // as if pulled, but now used by a foreign container
    const pulled = await fixture.tag(BUSYBOX_IMAGE, 'pulled:1')
    fixture.row('pulled', pulled, 4, 1)
    await fixture.succeed(4, 1, image, { section: { services: [], volumes: ['kept'] } })
    const now = Date.now()
    expect((await collect(4, now)).removed).toEqual([`pulled ${pulled}`])
    expect((await collect(4, now + 6 * DAY)).removed).toEqual([])
    expect((await collect(4, now + 8 * DAY)).removed).toEqual([`volume ${left}`])
    const volumes = await listOwnedVolumes(fixture.engine, fixture.settings, 4)
    expect(volumes.map(({ name }) => name)).toEqual([kept])
    expect(names(4)).toContain(`network ${network}`)
    expect(await inspectImage(fixture.engine, BUSYBOX_IMAGE)).toBeDefined()
  })

  it('sees that others use this engine, and says so for ever', async () => {
    expect(await holdsForeign(fixture.engine, fixture.settings)).toBe(true)
    expect(await isEngineExclusive(fixture.engine, fixture.ledger, fixture.settings)).toBe(false)
    const { environments } = await measureEngine(fixture.engine, fixture.settings)
    expect(environments.get(1)).toBeGreaterThan(0)
    expect(environments.has(2)).toBe(false)
  })
})

describe.skipIf(!dockerEngine())('drift', () => {
  let fixture: MaintenanceFixture
  let watch: DriftWatch
  const observations = new Observations()
  beforeAll(() => {
    fixture = new MaintenanceFixture()
    const { settings, engine } = fixture
    watch = new DriftWatch({ settings, engine, observations, now: () => Date.now() })
  })
  afterAll(() => fixture.close())
  const look = async (environmentId: number) => {
    await watch.look(fixture.ledger, environmentId)
    return observations.find(environmentId)
  }

  it('says nothing about what runs as deployed, and notices a container that was removed by hand', async () => {
    const { id } = await fixture.container(1, 1)
    await fixture.succeed(1, 1, BUSYBOX_IMAGE)
    expect(await look(1)).toMatchObject({
      commitSha: 'c0ffee',
      fence: 7n,
      services: [{ name: 'web', state: 'running', restarts: 0, outOfMemory: false }],
      degradedReason: '',
    })
    await removeContainer(fixture.engine, id)
    expect(await look(1)).toMatchObject({
      services: [{ state: 'missing' }],
      degradedReason: 'Running differs from last deployed: the container of web is gone.',
    })
    fixture.ledger.endVersion(1)
    expect(await look(1)).toMatchObject({ services: [], degradedReason: '' })
  })

  it('notices another image under the same name', async () => {
    const image = await fixture.image(2, 1)
    await fixture.container(2, 1)
    await fixture.succeed(2, 1, image)
    expect((await look(2))?.degradedReason).toMatch(
      /^Running differs from last deployed: web runs image [0-9a-f]{7}, expected [0-9a-f]{7}\.$/,
    )
  })

  it('notices a crash loop and how it ends', async () => {
    const command = ['/bin/sh', '-c', 'exit 3']
    await fixture.container(3, 1, BUSYBOX_IMAGE, { command, restart: 'unless-stopped' })
    await fixture.succeed(3, 1, BUSYBOX_IMAGE)
    const seen = await eventually(async () => {
      const view = await look(3)
      return view?.degradedReason ? view : undefined
    }, 'a crash loop')
    expect(seen.degradedReason).toMatch(/^web ended \d times.*, last exit code 3\.$/)
    expect(seen.services[0]?.restarts).toBeGreaterThanOrEqual(3)
  })

  it('notices what ended for good', async () => {
    await fixture.container(4, 1, BUSYBOX_IMAGE, { command: ['/bin/sh', '-c', 'exit 4'] })
    await fixture.succeed(4, 1, BUSYBOX_IMAGE)
    const seen = await eventually(async () => {
      const view = await look(4)
      return view?.services[0]?.state === 'exited' ? view : undefined
    }, 'the end of it')
    expect(seen.degradedReason).toBe('web stopped with exit code 4.')
  })
})
