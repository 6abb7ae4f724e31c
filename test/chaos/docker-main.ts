// The commands `docker` and `disk` of `npm run chaos` (main.ts): open what they need, run, print the figures.
import { join } from 'node:path'
import { thousands } from '../bench/figures.ts'
import { openDockerFixture } from '../fixtures/docker/docker-fixture.ts'
import { runDisk } from './disk.ts'
import { runDockerChaos } from './docker.ts'
import { drawStrikes, readStrikes } from './docker-faults.ts'
import { Foreign } from './foreign.ts'
import { seeded } from './run.ts'
import { makeSmallDisk } from './small-disk.ts'

const GiB = 1_024 ** 3
const MiB = 1_024 ** 2
/** Two hundred of these exceed the disk. */
const PAYLOAD_MIB = 32
/** The engine is shared with other users, so its operator limits the cache, not Berth. */
const BUILD_CACHE = '512MB'

const say = (line: string): void => console.log(line)

export async function chaosDocker(o: {
  kills: number
  seed: number
  only?: string | undefined
}): Promise<number> {
  console.log(`seed ${o.seed}`)
  const strikes = o.only ? readStrikes(o.only) : drawStrikes(o.kills, seeded(o.seed))
  const v = await runDockerChaos({ strikes, say })
  const isGood = v.violations.length === 0
  console.log(
    `docker: ${v.strikes} faults, ${thousands(v.requests)} requests: ${v.failed} failed, ` +
      `${v.cut} cut with Caddy or a late edge; ${v.violations.length} violations: ${isGood ? 'ok' : 'VIOLATED'}`,
  )
  return isGood ? 0 : 1
}

export async function chaosDisk(o: {
  deployments: number
  environments: number
  gigabytes: number
}): Promise<number> {
  const disk = makeSmallDisk(o.gigabytes * GiB)
  try {
    const dataRoot = join(disk.folder, 'engine')
    const before = disk.freeBytes()
    const made = await openDockerFixture({
      dataRoot,
      buildCache: BUILD_CACHE,
      prepare: async ({ socket }) => Foreign.make(socket),
      fixture: { parent: disk.folder },
    })
    try {
      const { fixture, engine, prepared: foreign } = made
      const v = await runDisk({
        ...o,
        fixture,
        engine,
        foreign,
        disk,
        payloadMiB: PAYLOAD_MIB,
        say,
      })
      const isGood = v.violations.length === 0
      console.log(
        `disk of ${o.gigabytes} GiB (${thousands(before / MiB)} MiB free): ${o.deployments} deployments over ` +
          `${o.environments} environments, ${thousands(v.built / MiB)} MiB of layers: ${v.succeeded} succeeded, ` +
          `${v.diskFull} disk_full; never less than ${thousands(v.leastFree / MiB)} MiB free, at most ` +
          `${v.mostImages} images; ${v.violations.length} violations: ${isGood ? 'ok' : 'VIOLATED'}`,
      )
      return isGood ? 0 : 1
    } finally {
      await made.close()
    }
  } finally {
    disk.close()
  }
}
