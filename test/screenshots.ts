// `npm run screenshots`: every page in both themes at 1280×800, 1440×900 and 390×844. The four that the README shows are
// in docs/screenshots; all of them are written to .data/screenshots, which git ignores.
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Chromium, type Look } from './fixtures/people/chromium.ts'
import {
  ADA,
  type DashboardContent,
  makeDashboardContent,
} from './fixtures/people/dashboard-content.ts'
import { TestControlPlane } from './fixtures/platform/control-plane.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const out = join(root, '.data', 'screenshots')
const kept = join(root, 'docs', 'screenshots')
/** The pages that the README shows, with their file names. */
const KEPT = {
  'project-light-1280': 'project',
  'task-failed-dark-1280': 'deployment',
  'environment-variables-light-1280': 'variables',
  'projects-dark-1280': 'projects',
} as const
const SIZES = [
  { width: 1_280, height: 800 },
  { width: 1_440, height: 900 },
  { width: 390, height: 844 },
]
const FULL = { fullPage: true } as const

/** `only` names the pages; empty means all. */
async function look(
  chrome: Chromium,
  content: DashboardContent,
  o: Look,
  only: string[],
): Promise<void> {
  const visitor = await chrome.visit(content.platform.cp.url, o)
  const suffix = `${o.theme}-${o.width}`
  await visitor.signIn(ADA.email, ADA.password)
  for (const [name, path] of Object.entries({ ...content.pages, design: '/design' })) {
    if (only.length > 0 && !only.includes(name)) continue
    if (name === 'server') await content.measure()
    await visitor.goto(path)
    await visitor.page.getByRole('heading', { level: 1 }).waitFor()
    await visitor.page.waitForLoadState('networkidle')
    await visitor.page.screenshot({ path: join(out, `${name}-${suffix}.png`), ...FULL })
  }
  for (const complaint of visitor.complaints) console.error(complaint)
  await visitor.close()
}

async function lookFromOutside(chrome: Chromium, theme: 'light' | 'dark'): Promise<void> {
  const cp = await TestControlPlane.start('sqlite')
  const visitor = await chrome.visit(cp.url, { theme })
  await visitor.goto('/setup')
  await visitor.heading('Set up Berth')
  await visitor.page.screenshot({ path: join(out, `setup-${theme}.png`), ...FULL })
  await cp.setUp()
  for (const [name, path] of Object.entries({
    login: '/login',
    reset: '/reset/x',
    invite: '/invite/x',
  })) {
    await visitor.goto(path)
    await visitor.page.waitForLoadState('networkidle')
    await visitor.page.screenshot({ path: join(out, `${name}-${theme}.png`), ...FULL })
  }
  await visitor.close()
  await cp.close()
}

const only = process.argv.slice(2)
mkdirSync(out, { recursive: true })
mkdirSync(kept, { recursive: true })
const chrome = await Chromium.launch()
const content = await makeDashboardContent({ pace: 300, minutes: 1_440 })
try {
  for (const theme of ['light', 'dark'] as const) {
    for (const size of SIZES) await look(chrome, content, { theme, ...size }, only)
    if (only.length === 0) await lookFromOutside(chrome, theme)
  }
  for (const [from, to] of Object.entries(KEPT)) {
    copyFileSync(join(out, `${from}.png`), join(kept, `${to}.png`))
  }
} finally {
  await content.close()
  await chrome.close()
}
console.log(`pictures: ${out}`)
