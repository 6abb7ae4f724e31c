// `npm run screenshots`: every page and state of the dashboard in both themes at 1280×800, 1440×900 and 390×844, in
// .data/screenshots, which git ignores. `-- --only task,projects-empty` renders pages whose name is or begins with one of
// these. Each is looked at by axe-core as well. The pictures of the documentation are written to docs/screenshots.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findings } from './fixtures/people/axe.ts'
import { Chromium, type Visitor } from './fixtures/people/chromium.ts'
import { makeShots, type Shot, type Shots, type Who } from './fixtures/people/dashboard-shots.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const out = join(root, '.data', 'screenshots')
const kept = join(root, 'docs', 'screenshots')

/** What the documentation shows: the file, and the window it is taken from. */
const KEPT: Record<string, string> = {
  'project.light.1280x800': 'project',
  'task-failed.dark.1280x800': 'deployment',
  'environment-variables.light.1280x800': 'variables',
  'projects.dark.1280x800': 'projects',
}
const THEMES = ['light', 'dark'] as const
/** A page is opened once for each of these, then shown in each theme and size. */
const DEVICES = [
  {
    isPhone: false,
    sizes: [
      { width: 1_280, height: 800 },
      { width: 1_440, height: 900 },
    ],
  },
  { isPhone: true, sizes: [{ width: 390, height: 844 }] },
]
/** One page on one device, with all its pictures. */
const SHOT_MS = 60_000
const HIGHEST = 6_000
/** Two frames: the charts are drawn again after a change of size or colours. */
const DRAWN = `new Promise((resolve) =>
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))`

type Device = (typeof DEVICES)[number]

class Studio {
  readonly #chrome: Chromium
  readonly #shots: Shots
  readonly #visitors = new Map<string, Visitor>()

  constructor(chrome: Chromium, shots: Shots) {
    this.#chrome = chrome
    this.#shots = shots
  }

  async #visitor(who: Who, device: Device): Promise<Visitor> {
    const key = `${who} ${device.isPhone}`
    const known = this.#visitors.get(key)
    if (known) return known
    const { url, cookies } = this.#shots.visitors[who]
    const [size] = device.sizes
    const made = await this.#chrome.visit(url, { ...size, isPhone: device.isPhone })
    await made.context.addCookies(cookies)
    this.#visitors.set(key, made)
    return made
  }

  async take(shot: Shot, device: Device): Promise<void> {
    const v = await this.#visitor(shot.who, device)
    await shot.open(v)
    for (const theme of THEMES) {
      await v.page.emulateMedia({ colorScheme: theme })
      for (const size of device.sizes) {
        const name = `${shot.name}.${theme}.${size.width}x${size.height}`
        await v.page.setViewportSize(size)
        await v.page.evaluate(DRAWN)
        const keep = KEPT[name]
        if (keep) await v.page.screenshot({ path: join(kept, `${keep}.png`) })
        if (!shot.isWindow) await whole(v, size)
        await v.page.screenshot({ path: join(out, `${name}.png`) })
      }
      for (const found of await findings(v.page)) {
        violations.push(`${shot.name}, ${theme}${device.isPhone ? ', phone' : ''}: ${found}`)
      }
    }
    await v.page.emulateMedia({ colorScheme: 'light' })
    await shot.after?.(v)
    for (const complaint of v.complaints.splice(0)) console.error(`${shot.name}: ${complaint}`)
  }

  /** After a problem the next page begins in a new browser window. */
  async drop(shot: Shot, device: Device): Promise<void> {
    const key = `${shot.who} ${device.isPhone}`
    await this.#visitors.get(key)?.close()
    this.#visitors.delete(key)
  }

  async close(): Promise<void> {
    for (const visitor of this.#visitors.values()) await visitor.close()
  }
}

/** Makes the window as high as the page, so that what sticks to its bottom is at the bottom of the picture. */
async function whole(v: Visitor, { width, height }: { width: number; height: number }) {
  const all = Number(await v.page.evaluate('document.documentElement.scrollHeight'))
  if (all <= height) return
  await v.page.setViewportSize({ width, height: Math.min(all, HIGHEST) })
  await v.page.evaluate(DRAWN)
}

/** A page that cannot be shown is named, and the others are still rendered. */
async function bounded(work: Promise<void>): Promise<string | undefined> {
  const late = Promise.withResolvers<string>()
  const timer = setTimeout(() => late.resolve(`not done in ${SHOT_MS} ms`), SHOT_MS)
  const done = work.then(
    () => undefined,
    (error: Error) => error.message,
  )
  const problem = await Promise.race([done, late.promise])
  clearTimeout(timer)
  return problem
}

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== '--'),
  options: { only: { type: 'string' } },
})
const only = values.only?.split(',') ?? []
const isWanted = ({ name }: Shot): boolean =>
  only.length === 0 || only.some((one) => name === one || name.startsWith(`${one}-`))

for (const folder of [out, kept]) mkdirSync(folder, { recursive: true })
const chrome = await Chromium.launch()
const shots = await makeShots()
const studio = new Studio(chrome, shots)
const problems: string[] = []
const violations: string[] = []
let taken = 0

async function take(shot: Shot, device: Device): Promise<void> {
  const problem = await bounded(studio.take(shot, device))
  if (problem === undefined) {
    taken += device.sizes.length * THEMES.length
    return
  }
  problems.push(`${shot.name}${device.isPhone ? ' (phone)' : ''}: ${problem}`)
  await studio.drop(shot, device)
}

try {
  for (const shot of shots.list.filter(isWanted)) {
    await shot.before?.()
    // one device waits for its page while the other one draws
    await Promise.all(DEVICES.map((device) => take(shot, device)))
  }
} finally {
  await studio.close()
  await shots.close()
  await chrome.close()
}
console.log(`${taken} pictures, ${violations.length} findings of axe-core: ${out}`)
for (const problem of [...problems, ...violations]) console.error(problem)
if (taken === 0) console.error('No page has this name.')
process.exitCode = problems.length + violations.length > 0 || taken === 0 ? 1 : 0
