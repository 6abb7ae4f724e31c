// Tasks of a page's main thread, from Chromium's own trace: how long each took, and its processor time. On a shared
// machine only the second is the page's doing; a plain list that is scrolled in the same browser under the same load
// shows what the machine adds.
import type { Page } from 'playwright-core'
import { percentile, round } from './figures.ts'

export const TASK_MS = 50
const CATEGORIES = [
  'devtools.timeline',
  'disabled-by-default-devtools.timeline',
  'disabled-by-default-v8.gc',
]
/** Shorter events do not matter, and there are millions of them. */
const LEAST_US = 500
const STOP_MS = 60_000
const PARTS = 4

interface TraceEvent {
  name: string
  ph: string
  pid: number
  tid: number
  ts: number
  dur?: number
  tdur?: number
  args?: { name?: string }
}

export interface Seen {
  /** Processor time of the longest task, and how many exceeded the limit. */
  cpuMs: number
  cpuLong: number
  wallMs: number
  wallLong: number
  /** What the longest task by processor time consisted of. */
  parts: string
  frames: number[]
}

/** The main thread of the observed page: the busiest of them. */
function mainEvents(events: readonly TraceEvent[]): TraceEvent[] {
  const mains = new Map<string, TraceEvent[]>()
  const key = (e: TraceEvent): string => `${e.pid}/${e.tid}`
  for (const e of events) {
    if (e.ph === 'M' && e.args?.name === 'CrRendererMain') mains.set(key(e), [])
  }
  for (const e of events) if (e.ph === 'X') mains.get(key(e))?.push(e)
  return [...mains.values()].toSorted((a, b) => b.length - a.length)[0] ?? []
}

function partsOf(task: TraceEvent, events: readonly TraceEvent[]): string {
  const end = task.ts + (task.dur ?? 0)
  const inside = events
    .filter((e) => e !== task && e.ts >= task.ts && e.ts + (e.dur ?? 0) <= end)
    .filter((e) => e.name !== 'RunTask')
    .toSorted((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0))
  const own = new Map<string, number>()
  const add = (name: string, us: number) => own.set(name, (own.get(name) ?? 0) + us)
  const open: TraceEvent[] = []
  for (const e of inside) {
    while (open.length > 0 && (open.at(-1)?.ts ?? 0) + (open.at(-1)?.dur ?? 0) <= e.ts) open.pop()
    add(e.name, e.tdur ?? 0)
    const around = open.at(-1)
    if (around) add(around.name, -(e.tdur ?? 0))
    open.push(e)
  }
  return [...own]
    .toSorted((a, b) => b[1] - a[1])
    .slice(0, PARTS)
    .map(([name, us]) => `${name} ${round(us / 1_000, 0)}`)
    .join(', ')
}

function summary(events: readonly TraceEvent[], frames: number[]): Seen {
  const all = mainEvents(events)
  const tasks = all.filter((e) => e.name === 'RunTask')
  const ms = (pick: (e: TraceEvent) => number | undefined) =>
    tasks.map((e) => (pick(e) ?? 0) / 1_000)
  const [wall, cpu] = [ms((e) => e.dur), ms((e) => e.tdur)]
  const longest = tasks.toSorted((a, b) => (b.tdur ?? 0) - (a.tdur ?? 0))[0]
  return {
    cpuMs: Math.max(0, ...cpu),
    cpuLong: cpu.filter((t) => t > TASK_MS).length,
    wallMs: Math.max(0, ...wall),
    wallLong: wall.filter((t) => t > TASK_MS).length,
    parts: longest ? partsOf(longest, all) : '',
    frames,
  }
}

const FRAMES = `
  window.seenFrames = []
  window.isWatching = true
  let last = performance.now()
  const frame = (now) => {
    window.seenFrames.push(now - last)
    last = now
    if (window.isWatching) requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
`

export async function watched(page: Page, work: () => Promise<unknown>): Promise<Seen> {
  const cdp = await page.context().newCDPSession(page)
  const events: TraceEvent[] = []
  cdp.on('Tracing.dataCollected', ({ value }) => {
    for (const event of value as unknown as TraceEvent[]) {
      const isLong = event.ph === 'X' && (event.dur ?? 0) >= LEAST_US
      if (isLong || event.name === 'thread_name') events.push(event)
    }
  })
  await cdp.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: CATEGORIES, recordMode: 'recordUntilFull' },
  })
  await page.evaluate(FRAMES)
  await work()
  const frames = await page.evaluate('window.isWatching = false, window.seenFrames')
  const over = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the trace did not end')), STOP_MS)
    cdp.once('Tracing.tracingComplete', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  await cdp.send('Tracing.end')
  await over
  await cdp.detach()
  return summary(events, frames as number[])
}

/** A scrolled list with as many rows as the log renders; a third of its texts change at each frame. */
const PLAIN = `(async () => {
  document.body.innerHTML = '<div style="height:600px;overflow:auto;font:13px/20px monospace"></div>'
  const box = document.body.firstChild
  for (let i = 0; i < 56; i++) box.append(Object.assign(document.createElement('div'), { textContent: i }))
  const until = performance.now() + 3000
  for (let n = 0; performance.now() < until; n++) {
    for (let i = n % 3; i < 56; i += 3) box.children[i].textContent = n + ' modules/checkout/src/cart.ts'
    box.scrollTop = n % 500
    await new Promise(requestAnimationFrame)
  }
})()`

/** What this machine does to a nearly idle page. */
export async function watchedFloor(page: Page): Promise<Seen> {
  await page.goto('about:blank')
  return watched(page, () => page.evaluate(PLAIN))
}

/** Measured before and after what is compared with it, because other load changes. */
export const bothFloors = (before: Seen, after: Seen): Seen => ({
  cpuMs: Math.max(before.cpuMs, after.cpuMs),
  cpuLong: before.cpuLong + after.cpuLong,
  wallMs: Math.max(before.wallMs, after.wallMs),
  wallLong: before.wallLong + after.wallLong,
  parts: '',
  frames: late(before) > late(after) ? before.frames : after.frames,
})

const late = (seen: Seen): number => percentile(seen.frames, 99)

/** A frame with more work is interrupted more often on a shared machine, so it may be this much later. */
const STRETCH = 3

/** Judges tasks by processor time, and frames by the clock or in proportion to those of a plain list. */
export const isSmooth = (seen: Seen, floor: Seen): boolean =>
  seen.cpuLong === 0 && late(seen) <= Math.max(TASK_MS, STRETCH * late(floor))

export const describeTasks = (seen: Seen, floor: Seen): string =>
  `longest task ${round(seen.cpuMs, 0)} ms of processor (${seen.parts}), ${round(seen.wallMs, 0)} ms by the clock; ` +
  `over ${TASK_MS} ms: ${seen.cpuLong} and ${seen.wallLong}; frames p50 ${round(percentile(seen.frames, 50), 0)} ms, ` +
  `p99 ${round(late(seen), 0)} ms. A plain list: longest ${round(floor.cpuMs, 0)} and ` +
  `${round(floor.wallMs, 0)} ms, over: ${floor.cpuLong} and ${floor.wallLong}, p99 ${round(late(floor), 0)} ms`
