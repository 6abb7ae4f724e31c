import { expect, test } from 'vitest'
import { displayName } from './display-name.ts'

test.each([
  ['DATABASE_URL', 'DATABASE_URL'],
  ['2FA', '2FA'],
  ['A-B', 'A-B'],
  ['', ''],
  ['MY-LONG-KEY', 'MY-L…'],
  ['KEY=hunter2', 'KEY=…'],
  ['a1b2c3d4-0000-4000-8000-000000000000', 'a1b2…'],
  ['x'.repeat(129), 'xxxx…'],
])('%s is shown as %s', (name, shown) => {
  expect(displayName(name)).toBe(shown)
})
