// Ports of tests: which part of them a test file may take. Files run at once, in one run and in several on one machine, and a
// port that is free for a moment is one that another file's service comes back to. So each run holds a number (a socket
// that it listens on: the kernel gives it to one, and takes it back from the dead), and each worker of it a slot.
//
//   9_800 …  9_899   the runs' numbers
//  10_000 … 19_999   drawn one by one (lab-docker.ts: freePort), for whatever is started once
//  20_000 … 29_999   automatic ports of services, a hundred a slot (agent-host.ts)
//  30_000 … 30_999   the same of a whole installation, ten a slot (lab.ts)
// All below those that the kernel gives to outgoing connections.
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

const FIRST = 9_800
const RUNS = 20
const WORKERS = 4
const SLOTS = 100

/** In globalSetup. Undefined: many runs at once; slots come from process ids then. */
export async function claimRun(): Promise<Server | undefined> {
  for (let run = 0; run < RUNS; run += 1) {
    const server = createServer().unref()
    server.listen(FIRST + run, '127.0.0.1')
    const isOurs = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isOurs) continue
    process.env.BERTH_TEST_SLOT = String(run)
    return server
  }
  return undefined
}

/** Of this process: below a hundred. Benches and what else runs without a run's number has the upper fifth. */
export function portSlot(): number {
  const { BERTH_TEST_SLOT: run, VITEST_POOL_ID: worker } = process.env
  const shared = RUNS * WORKERS
  if (run === undefined || worker === undefined) return shared + (process.pid % (SLOTS - shared))
  return Number(run) * WORKERS + ((Number(worker) - 1) % WORKERS)
}
