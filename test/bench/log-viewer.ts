// The deployment page in Chromium with a long log, against a real control plane that received it through its real
// intake: time to the first readable line, blocking while scrolling, searching and following, and memory. Times are
// compared with a plain page of the same dashboard in the same browser.
import { loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { Chromium, type Visitor } from '../fixtures/people/chromium.ts'
import { PASSWORD } from '../fixtures/people/people.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'
import { percentile, round, thousands } from './figures.ts'
import { goal } from './goals.ts'
import {
  bothFloors,
  describeTasks,
  isSmooth,
  type Seen,
  watched,
  watchedFloor,
} from './long-tasks.ts'

const RATE = 5_000
const TICK_MS = 20
const ROUNDS = 5
/** How long the plain list is scrolled. */
const FLOOR_SECONDS = 3
const BOX = '[aria-label^="Log of"]'
/** `plainMs`: twice what a plain page takes on an idle machine; beyond it the ratio counts. */
const GOALS = { openMs: 300, plainMs: 120, ratio: 2.5, heapMB: 150 }

const text = (n: number): string =>
  n % 1_000 === 0
    ? `\u001b[31merror\u001b[0m needle ${n}: the thing that is looked for\n`
    : `\u001b[32mok\u001b[0m ${n} modules/checkout/src/components/cart-${n % 97}.ts compiled in ${n % 40} ms\n`

/** From the click to the frame that shows it. */
const OPEN = (link: string, there: string): string => `new Promise((done) => {
  const began = performance.now()
  const look = () => {
    if (${there}) requestAnimationFrame(() => done(performance.now() - began))
    else requestAnimationFrame(look)
  }
  document.querySelector(${JSON.stringify(link)}).click()
  look()
})`
const IS_READABLE = `document.querySelector('[data-n="1"]')?.textContent.includes('compiled') &&
  document.querySelector('[aria-label="Search in the log"]')`

/** Three seconds of steady scrolling, then jumps to ranges that are not loaded. */
const SCROLL = `(async () => {
  const box = document.querySelector('${BOX}')
  const frame = () => new Promise(requestAnimationFrame)
  const until = performance.now() + 3000
  while (performance.now() < until) { box.scrollTop += 160; await frame() }
  for (let i = 1; i <= 30; i++) {
    box.scrollTop = (box.scrollHeight * i) / 31
    for (let f = 0; f < 6; f++) await frame()
  }
  return document.querySelectorAll('[data-n]').length
})()`

const smooth = (what: string, seen: Seen, floor: Seen, detail = ''): void =>
  void goal(what, isSmooth(seen, floor), `${detail}${describeTasks(seen, floor)}`)

const reportLoad = (): void =>
  console.log(
    `load of the machine: ${loadavg()
      .map((n) => round(n, 1))
      .join(' ')}`,
  )

async function openTimes(v: Visitor, environmentId: number, taskId: number) {
  const [logs, plain]: number[][] = [[], []]
  for (let i = 0; i <= ROUNDS; i++) {
    await v.goto(`/environments/${environmentId}`)
    await v.page.locator(`a[href="/tasks/${taskId}"]`).first().waitFor()
    await v.page.waitForLoadState('networkidle')
    const there = `document.querySelector('main h1') && location.pathname.endsWith('/settings') &&
      document.querySelector('main form')`
    const link = `a[href="/environments/${environmentId}/settings"]`
    plain?.push(Number(await v.page.evaluate(OPEN(link, there))))
    await v.page.goBack()
    await v.page.locator(`a[href="/tasks/${taskId}"]`).first().waitFor()
    logs?.push(Number(await v.page.evaluate(OPEN(`a[href="/tasks/${taskId}"]`, IS_READABLE))))
  }
  return { logs: logs ?? [], plain: plain ?? [] }
}

async function heapMB(v: Visitor): Promise<number> {
  const cdp = await v.context.newCDPSession(v.page)
  await cdp.send('HeapProfiler.collectGarbage')
  return Number(await v.page.evaluate('performance.memory.usedJSHeapSize')) / 1e6
}

/** A plain list while another client fetches the same ranges of the log. */
async function floorOfFetching(v: Visitor, taskId: number): Promise<Seen> {
  let isOver = false
  const fetching = (async () => {
    for (let from = 1; !isOver; from += 1_000) {
      const input = JSON.stringify({ task_id: taskId, from, to: from + 999 })
      await v.context.request.get(`${v.url}/trpc/task.log?input=${encodeURIComponent(input)}`)
    }
  })()
  const floor = await watchedFloor(v.page)
  isOver = true
  await fetching
  return floor
}

async function searches(v: Visitor, taskId: number): Promise<void> {
  const before = await floorOfFetching(v, taskId)
  await v.goto(`/tasks/${taskId}`)
  await v.page.locator('[data-n="1"]').waitFor()
  const field = v.page.getByLabel('Search in the log')
  const expected = async (query: string, words: RegExp) => {
    const began = performance.now()
    await field.fill(query)
    await v.text(words).waitFor({ timeout: 120_000 })
    return performance.now() - began
  }
  let ms = 0
  const server = await watched(v.page, async () => {
    ms = await expected('needle', /^1\/[\d,]+\+?$/)
  })
  const serverMs = ms
  await field.fill('')
  await v.page.getByLabel('regex').check()
  const worker = await watched(v.page, async () => {
    ms = await expected('need+le \\d+000:', /^1\/[\d,]+\+?$/)
  })
  const workerMs = ms
  const again = await watched(v.page, async () => {
    ms = await expected('needle 1[0-9]+:', /^1\/[\d,]+\+?$/)
  })
  const againMs = ms
  await field.fill('')
  await v.page.getByLabel('regex').uncheck()
  const heap = await heapMB(v)
  goal('heap with every line loaded', heap < GOALS.heapMB, `${round(heap, 0)} MB`)
  const floor = bothFloors(before, await floorOfFetching(v, taskId))
  smooth('search by the server', server, floor, `${round(serverMs, 0)} ms, `)
  smooth(
    'expression in the worker, every range fetched',
    worker,
    floor,
    `${round(workerMs, 0)} ms, `,
  )
  smooth('the same with every range at hand', again, floor, `${round(againMs, 0)} ms, `)
}

/** Lines at a steady rate, however late a tick is. */
async function stream(attempt: ScriptedAttempt, seconds: number, before = 0): Promise<void> {
  const began = performance.now()
  for (let n = 0; n < seconds * RATE; ) {
    const due = Math.min(seconds * RATE, ((performance.now() - began) / 1_000) * RATE)
    while (n < due) attempt.say(text(before + ++n))
    await pause(TICK_MS)
  }
}

async function follow(
  v: Visitor,
  p: Platform,
  environmentId: number,
  seconds: number,
): Promise<void> {
  const { promise: go, resolve: begin } = Promise.withResolvers<void>()
  const { promise: end, resolve: finish } = Promise.withResolvers<void>()
  const { promise: said, resolve: done } = Promise.withResolvers<void>()
  p.executor.script = async (attempt) => {
    await stream(attempt, FLOOR_SECONDS)
    await go
    await stream(attempt, seconds, FLOOR_SECONDS * RATE)
    done()
    await end
    await stream(attempt, FLOOR_SECONDS, (FLOOR_SECONDS + seconds) * RATE)
    attempt.succeed()
  }
  const task = (await p.deploy(environmentId)).body
  const before = await watchedFloor(v.page) // while the same flood goes to a log that is not open
  await v.goto(`/tasks/${task.id}`)
  await v.page.locator(`[data-n="${FLOOR_SECONDS * RATE}"]`).waitFor()
  const far: number[] = []
  const seen = await watched(v.page, async () => {
    begin()
    let isOver = false
    void said.then(() => {
      isOver = true
    })
    while (!isOver) {
      await pause(250)
      const e = `(() => { const b = document.querySelector('${BOX}'); return b ? b.scrollHeight - b.scrollTop - b.clientHeight : 0 })()`
      far.push(Number(await v.page.evaluate(e)))
    }
    await v.page.locator(`[data-n="${(FLOOR_SECONDS + seconds) * RATE}"]`).waitFor()
  })
  finish()
  const floor = bothFloors(before, await watchedFloor(v.page))
  smooth(`${thousands(RATE)} lines/s for ${seconds} s`, seen, floor)
  goal(
    'follow holds the end',
    far.every((px) => px <= 40),
    `at most ${round(Math.max(...far), 0)} px from it`,
  )
  await p.settled(task.id)
}

export async function benchLogViewer(lines: number, seconds: number): Promise<void> {
  const p = await Platform.start('sqlite', { password: PASSWORD })
  const chrome = await Chromium.launch()
  try {
    reportLoad()
    const environment = await p.environment('staging')
    p.executor.script = (attempt) => {
      attempt.step('build:web', 'Build image web', 'build')
      for (let n = 1; n <= lines; n++) attempt.say(text(n))
      attempt.succeed()
    }
    const task = (await p.deploy(environment.id)).body
    const whole = await until(
      'the whole log',
      async () => {
        const now = await p.task(task.id)
        return now.log_complete && now.finished_at !== null ? now : undefined
      },
      300_000,
    )
    console.log(`planted ${thousands(whole.log_lines)} lines`)
    const v = await chrome.visit(p.cp.url)
    const floor = await watchedFloor(v.page)
    await v.signIn('ada@example.com', PASSWORD)
    const { logs, plain } = await openTimes(v, environment.id, task.id)
    const [cold = 0, ...warm] = logs
    const [coldPlain = 0, ...warmPlain] = plain
    const [median, base] = [percentile(warm, 50), percentile(warmPlain, 50)]
    goal(
      'readable after the click',
      median < GOALS.openMs || (base > GOALS.plainMs && median / base < GOALS.ratio),
      `${round(median, 0)} ms (first visit ${round(cold, 0)} ms), ${round(median / base)} of a plain page ` +
        `(${round(base, 0)} ms, first visit ${round(coldPlain, 0)} ms)`,
    )
    let rows = 0
    const scrolled = await watched(v.page, async () => {
      rows = Number(await v.page.evaluate(SCROLL))
    })
    const after = await watchedFloor(v.page)
    smooth('scrolling', scrolled, bothFloors(floor, after), `${rows} rows in the document, `)
    await searches(v, task.id)
    reportLoad()
    await follow(v, p, environment.id, seconds)
    for (const complaint of v.complaints) goal('complaints', false, complaint)
    reportLoad()
  } finally {
    await chrome.close()
    await p.close()
  }
}
