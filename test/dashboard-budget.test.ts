// The size limits of the dashboard, gzip level 9, computed from the files of the build.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { dashboardDist } from '../scripts/build-dashboard.ts'
import { firstVisit, pageFile, withImports } from './fixtures/people/dashboard-files.ts'

const kB = 1_000
// `all` includes the component library and the charts, which load on demand; no visit loads all of it
const BUDGET = {
  firstVisit: 160 * kB,
  all: 400 * kB,
  css: 24 * kB,
  fonts: 40 * kB,
  taskPage: 28 * kB,
}

const raw = (file: string): Buffer => readFileSync(join(dashboardDist, file))
/** What goes over the wire: text is compressed, fonts are already. */
const weigh = (file: string): number =>
  file.endsWith('.woff2') ? raw(file).length : gzipSync(raw(file), { level: 9 }).length
const sum = (files: Iterable<string>): number => [...files].reduce((n, f) => n + weigh(f), 0)

const files = readdirSync(join(dashboardDist, 'assets')).map((file) => `assets/${file}`)
const ending = (end: string): string[] => files.filter((file) => file.endsWith(end))
const html = raw('index.html').toString()

test('the first visit: document, icon, scripts, style sheets and font, from the sign-in to the projects', () => {
  const visit = firstVisit()
  for (const end of ['.html', '.svg', '.js', '.css', '.woff2']) {
    expect([...visit].filter((file) => file.endsWith(end))).not.toHaveLength(0)
  }
  expect(sum(visit)).toBeGreaterThan(120 * kB) // proves that imports are followed
  expect(sum(visit)).toBeLessThanOrEqual(BUDGET.firstVisit)
})

test('everything, the style sheets, the deployment page', () => {
  const shipped = ending('.js').filter((file) => file !== pageFile('design')) // for development only
  expect(sum(shipped)).toBeLessThanOrEqual(BUDGET.all)
  expect(sum(ending('.css'))).toBeLessThanOrEqual(BUDGET.css)
  const first = firstVisit()
  const own = [...withImports([pageFile('task')])].filter((file) => !first.has(file))
  expect(sum(own)).toBeLessThanOrEqual(BUDGET.taskPage)
})

test('three fonts, the first of them preloaded', () => {
  const fonts = ending('.woff2')
  expect(fonts).toHaveLength(3)
  expect(sum(fonts)).toBeLessThanOrEqual(BUDGET.fonts)
  expect(html).toMatch(
    /<link rel="preload" as="font"[^>]* href="\/assets\/geist-basic-[\w-]+\.woff2"/,
  )
})

test('the first visit loads no component library and no charts', () => {
  const text = (of: Iterable<string>) => [...of].map((file) => raw(file).toString()).join('')
  const first = text([...firstVisit()].filter((file) => file.endsWith('.js')))
  for (const mark of ['uplot', 'data-base-ui-']) {
    expect(text(ending('.js'))).toContain(mark) // the mark is right
    expect(first).not.toContain(mark)
  }
})

test('nothing inline but the theme script, nothing from elsewhere', () => {
  expect(html.match(/<script(?![^>]*\bsrc=)[^>]*>/g)).toHaveLength(1)
  expect(html).not.toMatch(/\bstyle=|<style|(?:src|href)="(?!\/)/)
})
