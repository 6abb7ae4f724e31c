// Rows in backups: all that a table holds comes back equal.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeRow, encodeRow, type Value } from '../control-plane/src/store/transfer/rows.ts'

const value: fc.Arbitrary<Value> = fc.oneof(
  fc.constant(null),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.string({ unit: 'grapheme', maxLength: 50 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.uint8Array({ maxLength: 50 }),
)

test('every row comes back equal, from one line', () => {
  fc.assert(
    fc.property(fc.array(value, { minLength: 1, maxLength: 10 }), (row) => {
      const line = encodeRow(row)
      expect(line.indexOf('\n')).toBe(line.length - 1)
      const back = decodeRow(line, row.length)
      expect(encodeRow(back)).toBe(line)
      for (const [i, one] of row.entries()) {
        const other = back[i]
        if (one instanceof Uint8Array) expect([...(other as Uint8Array)]).toEqual([...one])
        else if (typeof one === 'string' || one === null) expect(other).toBe(one)
        else expect(String(other)).toBe(Object.is(one, -0) ? '0' : String(one)) // 5 and 5n are one integer
      }
    }),
  )
})

test('a row of another form is refused', () => {
  for (const line of ['{}', '[1]', '[1,2,3]', '[true,1]', '[{},1]', '[1,']) {
    expect(() => decodeRow(line, 2)).toThrow()
  }
  expect(() => encodeRow([true as unknown as Value])).toThrow('boolean')
})
