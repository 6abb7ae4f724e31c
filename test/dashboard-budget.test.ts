// The size limits of the dashboard, gzip level 9, computed from the files of the build.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { dashboardDist } from '../scripts/build-dashboard.ts'

const kB = 1_000
// `all` includes the component library and the charts, which load on demand; no visit loads all of it
const BUDGET = {
  firstLoad: 160 * kB,
  all: 400 * kB,
  css: 14 * kB,
  fonts: 40 * kB,
  taskPage: 28 * kB,
}
const assets = join(dashboardDist, 'assets')

const weigh = (text: string): number => gzipSync(text, { level: 9 }).length
const read = (file: string): string => readFileSync(join(assets, file), 'utf8')
const scripts = readdirSync(assets).filter((file) => file.endsWith('.js'))

/** The files with everything they import statically. */
function withImports(files: string[], seen = new Set<string>()): Set<string> {
  for (const file of files) {
    if (seen.has(file)) continue
    seen.add(file)
    const found = [...read(file).matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)]
    withImports(
      found.map((m) => m[1] ?? ''),
      seen,
    )
  }
  return seen
}

const page = (name: string): string => {
  const file = scripts.find((f) => new RegExp(`^${name}-[\\w-]{8}\\.js$`).test(f))
  if (!file) throw new Error(`no chunk of the page ${name}`)
  return file
}

function entry(): string[] {
  const html = readFileSync(join(dashboardDist, 'index.html'), 'utf8')
  return [...html.matchAll(/\/assets\/([\w.-]+\.js)/g)].map((m) => m[1] ?? '')
}

const sum = (files: Iterable<string>): number => [...files].reduce((n, f) => n + weigh(read(f)), 0)

test('the first page with everything it loads', () => {
  expect(entry().length).toBeGreaterThan(0)
  const weight = sum(withImports([...entry(), page('projects')]))
  expect(weight).toBeGreaterThan(50 * kB) // proves that imports are followed
  expect(weight).toBeLessThanOrEqual(BUDGET.firstLoad)
})

test('everything, the style sheet, the deployment page', () => {
  const shipped = scripts.filter((file) => file !== page('design')) // for development only
  expect(sum(shipped)).toBeLessThanOrEqual(BUDGET.all)
  const css = readdirSync(assets).filter((file) => file.endsWith('.css'))
  expect(sum(css)).toBeLessThanOrEqual(BUDGET.css)
  const first = withImports(entry())
  const own = [...withImports([page('task')])].filter((file) => !first.has(file))
  expect(sum(own)).toBeLessThanOrEqual(BUDGET.taskPage)
})

test('two fonts, the first of them preloaded', () => {
  const fonts = readdirSync(assets).filter((file) => file.endsWith('.woff2'))
  const bytes = fonts.reduce((all, file) => all + readFileSync(join(assets, file)).length, 0)
  expect(fonts).toHaveLength(2)
  expect(bytes).toBeLessThanOrEqual(BUDGET.fonts)
  const html = readFileSync(join(dashboardDist, 'index.html'), 'utf8')
  expect(html).toMatch(
    /<link rel="preload" as="font"[^>]* href="\/assets\/geist-latin-[\w-]+\.woff2"/,
  )
})

test('the first page loads no component library and no charts', () => {
  const first = [...withImports([...entry(), page('projects')])].map(read).join('')
  const all = scripts.map(read).join('')
  for (const mark of ['uplot', 'data-base-ui-']) {
    expect(all).toContain(mark) // the mark is right
    expect(first).not.toContain(mark)
  }
})

test('nothing inline but the theme script, nothing from elsewhere', () => {
  const html = readFileSync(join(dashboardDist, 'index.html'), 'utf8')
  expect(html.match(/<script(?![^>]*\bsrc=)[^>]*>/g)).toHaveLength(1)
  expect(html).not.toMatch(/\bstyle=|<style|(?:src|href)="(?!\/)/)
})
