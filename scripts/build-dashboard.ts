// Builds the dashboard into dashboard/dist, which the control plane serves. Run by itself it always builds; `npm start`
// and the tests build only if a source is newer.

import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = join(root, 'dashboard')
export const dashboardDist = join(folder, 'dist')

const SOURCES = ['src/**/*', 'public/*', 'index.html', 'vite.config.ts', 'package.json']
const WAIT_MS = 120_000
const POLL_MS = 200

/** The newest change of the sources and their number, so that a removed file counts too. */
function state(): string {
  const files = SOURCES.flatMap((glob) => globSync(join(folder, glob)))
  const times = [...files, join(root, 'pnpm-lock.yaml')].map((file) => statSync(file).mtimeMs)
  return `${files.length} ${Math.max(...times)}`
}

const stamp = join(dashboardDist, '.built-from')
const isFresh = (): boolean => existsSync(stamp) && readFileSync(stamp, 'utf8') === state()

async function buildDashboard(): Promise<void> {
  const from = state()
  const vite = createRequire(join(folder, 'package.json')).resolve('vite')
  const { build } = (await import(vite)) as { build(o: object): Promise<unknown> }
  const before = process.env.NODE_ENV
  process.env.NODE_ENV = 'production' // always: a test's own setting would bundle React's slow development build
  try {
    await build({ root: folder, configFile: join(folder, 'vite.config.ts'), mode: 'production' })
  } finally {
    if (before === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = before
  }
  writeFileSync(stamp, from)
}

/** Of two concurrent callers one builds and the other waits. `onWork` is called if that takes time. */
export async function buildDashboardIfStale(onWork = () => {}): Promise<void> {
  if (isFresh()) return
  onWork()
  const lock = join(folder, '.building')
  const deadline = Date.now() + WAIT_MS
  for (;;) {
    try {
      mkdirSync(lock)
      break
    } catch {
      if (isFresh()) return
      if (Date.now() > deadline) rmSync(lock, { recursive: true, force: true }) // its owner died
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }
  try {
    if (!isFresh()) await buildDashboard()
  } finally {
    rmSync(lock, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  await (process.argv[2] === '--if-stale' ? buildDashboardIfStale() : buildDashboard())
}
