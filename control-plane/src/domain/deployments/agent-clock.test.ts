import { expect, test } from 'vitest'
import { ClockOffset, whenHappened } from './agent-clock.ts'

test('the offset is that of the message that was under way for the shortest time, of the last few', () => {
  const clock = new ClockOffset()
  expect(clock.ms).toBeUndefined()
  clock.note(1_000, 61_900)
  clock.note(2_000, 62_010)
  clock.note(3_000, 63_400)
  expect(clock.ms).toBe(60_010)
  // the server's clock was corrected
  for (let n = 0; n < 8; n++) clock.note(70_000 + n, 70_002 + n)
  expect(clock.ms).toBe(2)
})

test.each([
  ['corrected', { at: 5_000, offsetMs: 60_000 }, 65_000],
  ['never before what it followed', { at: 5_000, offsetMs: 0 }, 61_000],
  ['never after it was heard of', { at: 50_000, offsetMs: 60_000 }, 90_000],
  ['no time was told', { at: undefined, offsetMs: 60_000 }, 90_000],
  ['how far the clock is off is not known', { at: 5_000, offsetMs: undefined }, 90_000],
])('%s', (_name, reported, expected) => {
  expect(whenHappened({ ...reported, notBefore: 61_000, heardAt: 90_000 })).toBe(expected)
})
