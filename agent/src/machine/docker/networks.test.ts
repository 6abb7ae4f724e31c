// Networks: which subnets are chosen, also when the engine, the host or the ledger has taken some; a full pool fails.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dockerEngine } from '../../../../test/fixtures/platform/components.ts'
import { removeContainer } from './containers.ts'
import { DockerFixture } from './engine.testing.ts'
import { ensureNetwork, listOwnedNetworks, removeNetwork } from './networks.ts'
import { overlaps, parseRange, parseRoutes, type Range, writeAddress } from './subnets.ts'

const range = (text: string): Range => parseRange(text) as Range

describe('ranges', () => {
  test('are read and written', () => {
    expect(range('10.214.0.70/26')).toEqual(range('10.214.0.64/26'))
    expect(writeAddress(range('10.214.0.70/26').from)).toBe('10.214.0.64')
    expect(range('0.0.0.0/0')).toEqual({ from: 0, to: 2 ** 32 - 1 })
    expect(writeAddress(2 ** 32 - 1)).toBe('255.255.255.255')
    for (const bad of ['', '10.0.0.0', '10.0.0.256/8', '10.0.0.0/33', 'fe80::/10', '10.0.0.0/8 ']) {
      expect(parseRange(bad)).toBeUndefined()
    }
  })

  test('overlap or not', () => {
    expect(overlaps(range('10.0.0.0/8'), range('10.214.0.0/26'))).toBe(true)
    expect(overlaps(range('10.214.0.0/26'), range('10.214.0.64/26'))).toBe(false)
  })

  test('of the host are those of its routing table without the default route', () => {
    const table = `Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0

`
    expect(parseRoutes(table)).toEqual([range('172.17.0.0/16'), range('192.168.1.0/24')])
  })
})

describe.skipIf(!dockerEngine())('a network', () => {
  let fixture: DockerFixture
  beforeAll(() => {
    fixture = new DockerFixture()
  })
  afterAll(() => fixture.close())
  const ensure = (environmentId: number, changes: { pool?: string; taken?: string[] } = {}) =>
    ensureNetwork(
      fixture.engine,
      { ...fixture.settings, networkPool: changes.pool ?? fixture.settings.networkPool },
      { environmentId, labels: fixture.labels(environmentId), takenSubnets: changes.taken ?? [] },
    )

  test('is made once for an environment, 40 of them with 40 subnets of the pool', async () => {
    const made: string[] = []
    for (let n = 1; n <= 40; n += 1) made.push((await ensure(n)).subnet)
    expect(new Set(made).size).toBe(40)
    const pool = range(fixture.settings.networkPool)
    for (const subnet of made) {
      expect(subnet).toMatch(/\/26$/)
      expect(overlaps(range(subnet), pool)).toBe(true)
    }
    const again = await ensure(7)
    expect(again).toMatchObject({ name: `${fixture.settings.accountPrefix}7`, subnet: made[6] })
    const listed = await listOwnedNetworks(fixture.engine, fixture.settings)
    expect(listed).toHaveLength(40)
    expect(await listOwnedNetworks(fixture.engine, fixture.settings, 7)).toMatchObject([again])
  })

  test('goes when nobody is on it', async () => {
    const id = await fixture.start('sleep 600')
    const name = `${fixture.settings.accountPrefix}1`
    expect(await removeNetwork(fixture.engine, fixture.settings, name)).toBe('in_use')
    // ignores another agent's network of that name
    await removeNetwork(fixture.engine, { owner: 'somebody-else' }, name)
    expect(await listOwnedNetworks(fixture.engine, fixture.settings, 1)).toMatchObject([{ name }])

    await removeContainer(fixture.engine, id)
    expect(await removeNetwork(fixture.engine, fixture.settings, name)).toBe('removed')
    expect(await removeNetwork(fixture.engine, fixture.settings, name)).toBe('removed')
  })

  /** The last /24 of the run's pool; other files take subnets from its beginning. */
  const corner = (n: number): string => {
    const { to } = range(fixture.settings.networkPool)
    return writeAddress(to - 255 + n * 64)
  }

  test('leaves out what the ledger has given away, and tells its choice before it is made', async () => {
    const chosen: string[] = []
    const network = await ensureNetwork(
      fixture.engine,
      { ...fixture.settings, networkPool: `${corner(0)}/24` },
      {
        environmentId: 101,
        labels: fixture.labels(101),
        takenSubnets: [`${corner(0)}/26`, 'nonsense'],
        onChosen: ({ subnet }) => chosen.push(subnet),
      },
    )
    expect(network.subnet).toBe(`${corner(1)}/26`)
    expect(chosen).toEqual([network.subnet])
  })

  test('of a full pool is refused with a sentence', async () => {
    const pool = `${corner(0)}/24`
    await ensure(102, { pool })
    await ensure(103, { pool })
    await ensure(104, { pool })
    await expect(ensure(105, { pool })).rejects.toMatchObject({
      kind: 'refused',
      message: `No free /26 network in ${pool} (4 in use).`,
    })
    await expect(ensure(105, { pool: '10.0.0.0' })).rejects.toMatchObject({ kind: 'refused' })
  })

  test('of another agent is not used, whatever its name', async () => {
    await ensure(106)
    const other = { ...fixture.labels(106), 'dev.berth.agent': 'somebody else' }
    await expect(
      ensureNetwork(fixture.engine, fixture.settings, {
        environmentId: 106,
        labels: other,
        takenSubnets: [],
      }),
    ).rejects.toMatchObject({ kind: 'conflict' })
  })

  test('of several environments at once never shares a subnet', async () => {
    const many = await Promise.all([108, 109, 110, 111].map((n) => ensure(n)))
    expect(new Set(many.map(({ subnet }) => subnet)).size).toBe(4)
  })
})
