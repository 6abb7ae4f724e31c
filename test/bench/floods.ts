// What a flood costs other users. `webhooks`: a thousand deliveries a second with wrong signatures, each from another
// address to bypass limits by address, beside ordinary requests. `subscribers`: five hundred pages that watch and never
// read, beside one that reads. Figures are ratios to the quiet control plane in the same run; generator and system
// share the machine.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { WebSocket } from 'ws'
import { change, emit } from '../../control-plane/src/app/core/transaction.ts'
import { LIVE } from '../../control-plane/src/limits/browser.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { until } from '../fixtures/server/installation.ts'
import { percentile, residentMiB, round, thousands } from './figures.ts'
import { goal, goalAtMost } from './goals.ts'

const PHASE_MS = 6_000
const KIB = 1_024

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Memory that remains after a garbage collection. */
function retainedMiB(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / KIB / KIB
}

/** Makes the noise in another process, so that the measured event loop is the control plane's alone. */
function makeNoise(kind: 'deliveries' | 'readers', order: object): ChildProcess {
  const child = fork(fileURLToPath(new URL('flood-noise.ts', import.meta.url)), [kind])
  child.send(order)
  return child
}
const heard = (child: ChildProcess): Promise<Record<string, number>> =>
  new Promise((resolve) => child.once('message', (m) => resolve(m as Record<string, number>)))

/** Milliseconds of ordinary requests, one after the other. */
async function probe(cp: TestControlPlane, ms: number): Promise<number[]> {
  const times: number[] = []
  const ends = performance.now() + ms
  while (performance.now() < ends) {
    const began = performance.now()
    const answer = await cp.call('GET', '/api/projects')
    if (answer.status !== 200) throw new Error(`${answer.status} during the flood`)
    times.push(performance.now() - began)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return times
}

export async function benchWebhooks(perSecond: number): Promise<void> {
  const cp = await TestControlPlane.start('sqlite', { config: { trustedProxies: ['127.0.0.1'] } })
  try {
    await cp.setUp()
    const project = await cp.project('shop', (await cp.server()).id)
    const quiet = await probe(cp, PHASE_MS)
    const before = residentMiB(process.pid)
    const child = makeNoise('deliveries', {
      url: `${cp.url}/webhooks/${project.id}`,
      perSecond,
      ms: PHASE_MS,
    })
    const flooded = await probe(cp, PHASE_MS)
    const { sent = 0, refused = 0, shed = 0, seconds = 1 } = await heard(child)
    child.kill()
    const cost = await costOf(cp, `${cp.url}/webhooks/${project.id}`, perSecond)
    const rows = await cp.running.ctx.db.selectFrom('deliveries').select('id').execute()
    const [q50, f50] = [percentile(quiet, 50), percentile(flooded, 50)]
    console.log(
      `${thousands(sent)} wrong signatures in ${round(seconds, 1)} s (${thousands(sent / seconds)}/s), ` +
        `${thousands(refused)} refused with 401, ${thousands(shed)} before they were read, ${rows.length} written down; ` +
        `${round(cost)} ms of a processor each (1,000/s: ${round(cost * 100, 0)} % of a core)`,
    )
    console.log(
      `GET /api/projects: p50 ${round(q50)} ms quiet, ${round(f50)} ms flooded (${round(f50 / q50, 1)} times); ` +
        `p99 ${round(percentile(quiet, 99))} and ${round(percentile(flooded, 99))} ms; ` +
        `memory ${round(residentMiB(process.pid) - before, 0)} MiB more`,
    )
    goalAtMost('GET /api/projects during the flood, p50', f50 / q50, 5, '× quiet')
    goal('wrong signatures written down', rows.length === 0, String(rows.length))
  } finally {
    await cp.close()
  }
}

/** Processor time of one refused delivery, independent of the machine's load: only the flood runs here. */
async function costOf(cp: TestControlPlane, url: string, perSecond: number): Promise<number> {
  cp.clock.offsetMs += 61_000 // resets the limit of each address
  const began = process.cpuUsage()
  const child = makeNoise('deliveries', { url, perSecond, ms: PHASE_MS / 2 })
  const { refused = 1, shed = 0 } = await heard(child)
  child.kill()
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1_000 / (refused + shed)
}

interface Page {
  lags: number[]
  numbers: number[]
  close(): void
}

/** A page that reads: the lag of each event, by one clock. */
async function openPage(cp: TestControlPlane, projectId: number): Promise<Page> {
  const socket = new WebSocket(`${cp.url.replace('http', 'ws')}/trpc`, {
    headers: { authorization: `Bearer ${cp.token}` },
  })
  const page: Page = { lags: [], numbers: [], close: () => socket.terminate() }
  socket.on('message', (data) => {
    const { body } = JSON.parse(String(data)).result?.data?.data ?? {}
    if (body?.n === undefined) return
    page.numbers.push(body.n)
    page.lags.push(performance.timeOrigin + performance.now() - body.t)
  })
  await new Promise((resolve) => socket.once('open', resolve))
  const params = { path: 'project.events', input: { project_id: projectId } }
  const begun = new Promise((resolve) => socket.once('message', resolve))
  socket.send(JSON.stringify({ id: 1, method: 'subscription', params }))
  await begun
  return page
}

export async function benchSubscribers(count: number): Promise<void> {
  const cp = await TestControlPlane.start('sqlite')
  try {
    const organizationId = (await cp.setUp()).organization.id
    const projectId = (await cp.project('shop', (await cp.server()).id)).id
    const people = Math.ceil(count / LIVE.socketsPerUser)
    const tokens = await Promise.all(
      Array.from({ length: people }, (_, n) => makePerson(cp, `p${n}`, { organizationId })),
    )
    const page = await openPage(cp, projectId)
    const quiet = await flow(cp, organizationId, projectId, page)
    const child = makeNoise('readers', {
      url: `${cp.url.replace('http', 'ws')}/trpc`,
      tokens: tokens.map((person) => person.token),
      count,
      projectId,
    })
    await heard(child)
    await until(
      'every subscription',
      () => cp.running.sockets.subscriptions === count + 1 || undefined,
    )
    const before = residentMiB(process.pid)
    const keptBefore = retainedMiB()
    let most = 0
    let buffered = 0
    const watching = setInterval(() => {
      most = Math.max(most, residentMiB(process.pid))
      buffered = Math.max(buffered, ...cp.running.sockets.buffered())
    }, 250)
    const flooded = await flow(cp, organizationId, projectId, page)
    clearInterval(watching)
    const kept = retainedMiB() - keptBefore
    cp.clock.offsetMs += LIVE.stallMs + 1_000
    await until('those to be cut off', () => cp.running.sockets.size === 1 || undefined)
    child.send('resume')
    const { missing = -1, resumed = 0 } = await heard(child)
    child.kill()
    page.close()
    const isWhole = page.numbers.every((n, at) => n === at)
    console.log(
      `${count} pages that do not read, 1 MB/s of events to each for ${PHASE_MS / 1_000} s: ` +
        `${round(kept, 0)} MiB kept, ${round(most - before, 0)} MiB more with what was not ` +
        `collected yet, at most ${round(buffered / KIB, 0)} KiB under way to one`,
    )
    console.log(
      `a page that reads: lag p50 ${round(percentile(quiet, 50))} ms alone, ${round(percentile(flooded, 50))} ms beside them ` +
        `(${round(percentile(flooded, 50) / percentile(quiet, 50), 1)} times), p99 ${round(percentile(flooded, 99))} ms ` +
        `; ${isWhole ? 'nothing' : 'SOMETHING'} lost`,
    )
    goalAtMost('memory kept for pages that do not read', kept / count, 0.2, 'MiB a page')
    goalAtMost(
      'lag beside them, p50',
      percentile(flooded, 50) / percentile(quiet, 50),
      20,
      '× alone',
    )
    goal('events', isWhole && missing === 0, `${missing} missed after coming back`)
    console.log(`all were cut off; ${resumed} of them came back by number and missed ${missing}`)
  } finally {
    await cp.close()
  }
}

const EVENT_BYTES = 10 * KIB
let numbered = 0

/** Emits a megabyte of events a second; returns the lags of the page that reads. */
async function flow(
  cp: TestControlPlane,
  organizationId: number,
  projectId: number,
  page: Page,
): Promise<number[]> {
  const from = page.lags.length
  const big = 'x'.repeat(EVENT_BYTES)
  const began = performance.now()
  const everyMs = EVENT_BYTES / KIB // one KiB per millisecond
  for (let n = 0; n * everyMs < PHASE_MS; n++) {
    const wait = began + n * everyMs - performance.now()
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
    await change(cp.running.ctx, async (c) => {
      const t = performance.timeOrigin + performance.now()
      emit(c, { organizationId, projectId }, 'project.updated', { n: numbered, t, big })
    })
    numbered += 1
  }
  await until('the last event', () => page.numbers.at(-1) === numbered - 1 || undefined)
  return page.lags.slice(from)
}
