// Builds the dashboard into dashboard/dist, which the control plane serves: always when run by itself, and only when
// something it is made from is newer when `npm start` and the tests ask.

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

/** Newest change of what it is made from, and how many files: a removed one counts too. */
function state(): string {
  const files = SOURCES.flatMap((glob) => globSync(join(folder, glob)))
  const times = [...files, join(root, 'pnpm-lock.yaml')].map((file) => statSync(file).mtimeMs)
  return `${files.length} ${Math.max(...times)}`
}

const stamp = join(dashboardDist, '.built-from')
const isFresh = (): boolean => existsSync(stamp) && readFileSync(stamp, 'utf8') === state()

export async function buildDashboard(): Promise<void> {
  const from = state()
  const vite = createRequire(join(folder, 'package.json')).resolve('vite')
  const { build } = (await import(vite)) as { build(o: object): Promise<unknown> }
  const before = process.env.NODE_ENV
  process.env.NODE_ENV = 'production' // whoever asks: a test's own setting would give React's slow half
  try {
    await build({ root: folder, configFile: join(folder, 'vite.config.ts'), mode: 'production' })
  } finally {
    if (before === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = before
  }
  writeFileSync(stamp, from)
}

/** Two who ask at once: one builds, the other waits for it. */
export async function buildDashboardIfStale(): Promise<void> {
  if (isFresh()) return
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
