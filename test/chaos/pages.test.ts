// Every line of docs/operations is typed by a run, and no run types lines that the pages no longer have.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readCommands, readUnmarked, STEPS } from './pages.ts'

test('every command of the pages about operation has a run that types it', () => {
  const told = new Set(readCommands().map(({ line }) => line))
  const typed = new Set(STEPS.map(({ line }) => line))
  expect(told.size).toBeGreaterThan(30)
  expect({
    untried: [...told].filter((line) => !typed.has(line)),
    gone: [...typed].filter((line) => !told.has(line)),
  }).toEqual({ untried: [], gone: [] })
})

test('every block says what it is', () => {
  expect(readUnmarked()).toEqual([])
})

test('every named test exists', () => {
  const files = STEPS.flatMap((step) =>
    'by' in step ? (step.by.match(/test\/\S+\.ts/g) ?? []) : [],
  )
  expect(files.length).toBeGreaterThan(0)
  expect(files.filter((file) => !existsSync(file))).toEqual([])
})
