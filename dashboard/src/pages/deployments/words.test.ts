import { expect, test } from 'vitest'
import { canceledWords } from './words.ts'

test.each([
  [{ cancel_reason: 'user', canceled_by: 'Ada' }, 'Canceled by Ada.'],
  [{ cancel_reason: 'user', canceled_by: null }, 'Canceled by a user.'],
  [
    { cancel_reason: 'environment_removed', canceled_by: 'Ada' },
    'Canceled because Ada removed the environment.',
  ],
  [{ cancel_reason: 'environment_removed', canceled_by: null }, 'Canceled: environment removed.'],
  [{ cancel_reason: 'superseded', canceled_by: null }, 'Canceled before it started.'],
  [{ cancel_reason: null, canceled_by: null }, 'Canceled.'],
] as const)('%j: %s', (task, words) => {
  expect(canceledWords({ ...task, superseded_by: null })).toBe(words)
})
