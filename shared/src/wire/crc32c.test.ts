import { expect, test } from 'vitest'
import { crc32c } from './crc32c.ts'

/** Bit by bit, straight from the definition of the polynomial. */
function slowly(bytes: Uint8Array): number {
  let crc = 0xffffffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1
  }
  return ~crc >>> 0
}

const sample = (length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => (i * 131 + (i >> 3)) & 255)

test('published values', () => {
  expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283)
  // RFC 3720, B.4
  expect(crc32c(Buffer.alloc(32))).toBe(0x8a9136aa)
  expect(crc32c(Buffer.alloc(32, 0xff))).toBe(0x62a8ab43)
  expect(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i))).toBe(0x46dd794e)
  expect(crc32c(Buffer.alloc(0))).toBe(0)
})

test('every length around the table width agrees with the definition', () => {
  for (let length = 0; length < 70; length++) {
    expect(crc32c(sample(length))).toBe(slowly(sample(length)))
  }
})

test('pieces in a row give the sum of the whole, by seed and by range', () => {
  const whole = sample(1_000)
  for (const cut of [0, 1, 15, 16, 17, 500, 999, 1_000]) {
    const first = crc32c(whole.subarray(0, cut))
    expect(crc32c(whole.subarray(cut), first)).toBe(crc32c(whole))
    expect(crc32c(whole, first, cut)).toBe(crc32c(whole))
    expect(crc32c(whole, 0, cut, whole.length)).toBe(crc32c(whole.subarray(cut)))
  }
})
