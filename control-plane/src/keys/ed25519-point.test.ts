// Points on the curve and inputs that only look like one. A second implementation checks the arithmetic.
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { ed25519PublicKey, isEd25519Key } from '@berth/shared/ssh'
import { describe, expect, test } from 'vitest'

const P = (1n << 255n) - 19n
const mod = (n: bigint): bigint => ((n % P) + P) % P
function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let b = mod(base), e = exponent; e > 0n; e >>= 1n, b = (b * b) % P) {
    if (e & 1n) result = (result * b) % P
  }
  return result
}
const inverse = (n: bigint): bigint => power(n, P - 2n)
const D = mod(-121_665n * inverse(121_666n))
type Point = [x: bigint, y: bigint]
function add([x1, y1]: Point, [x2, y2]: Point): Point {
  const t = mod(D * x1 * x2 * y1 * y2)
  return [mod((x1 * y2 + y1 * x2) * inverse(1n + t)), mod((y1 * y2 + x1 * x2) * inverse(1n - t))]
}
/** Returns the point with this y, or undefined: takes the square root and squares it again. */
function lift(y: bigint): Point | undefined {
  const x2 = mod((y * y - 1n) * inverse(D * y * y + 1n))
  const root = power(x2, (P + 3n) / 8n)
  const x = [root, mod(root * power(2n, (P - 1n) / 4n))].find((r) => mod(r * r) === x2)
  return x === undefined ? undefined : [x, y]
}
const encode = (y: bigint): Buffer => Buffer.from(y.toString(16).padStart(64, '0'), 'hex').reverse()

describe('isEd25519Key', () => {
  test('takes every real key', () => {
    for (let n = 0; n < 50; n++) {
      const [key] = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey).fields
      expect(isEd25519Key(key as Buffer)).toBe(true)
    }
  })

  test('agrees with taking the square root, on random bytes', () => {
    let on = 0
    for (let n = 0; n < 200; n++) {
      const bytes = randomBytes(32)
      bytes.writeUInt8(bytes.readUInt8(31) & 0x7f, 31)
      const y = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
      if (y >= P) continue
      const expected = lift(y) !== undefined
      if (expected) on += 1
      expect(isEd25519Key(bytes)).toBe(expected)
    }
    expect(on).toBeGreaterThan(50) // about half of them; both answers occurred
    expect(on).toBeLessThan(150)
  })

  test('refuses every point of small order, with either sign', () => {
    const order8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n
    const small = [0n, 1n, P - 1n, order8, P - order8]
    for (const y of small) {
      let point = lift(y) as Point
      for (let n = 0; n < 3; n++) point = add(point, point)
      expect(point).toEqual([0n, 1n]) // eight times the point is the neutral element, so the list is right
      for (const sign of [0n, 1n << 255n]) expect(isEd25519Key(encode(y | sign))).toBe(false)
    }
  })

  test('refuses a second way to write a point, and other lengths', () => {
    const y = [3n, 4n, 5n, 6n, 7n, 8n].find((n) => lift(n)) as bigint
    expect(isEd25519Key(encode(y))).toBe(true)
    expect(isEd25519Key(encode(y + P))).toBe(false)
    expect(isEd25519Key(encode(y).subarray(1))).toBe(false)
    expect(isEd25519Key(Buffer.concat([encode(y), Buffer.alloc(1)]))).toBe(false)
  })
})
