// Whether 32 bytes are an Ed25519 public key somebody can hold the secret of: the one encoding of a point of the curve,
// and not one of the eight points of small order, under which anybody signs anything. OpenSSL imports all of these
// without a word. Public values only, so nothing here needs constant time.
const P = (1n << 255n) - 19n
const MASK = (1n << 255n) - 1n
/** d of the curve −x² + y² = 1 + d·x²·y². */
const D = 0x52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3n
/** y of the points of order 1, 2, 4 and 8, the sign of x left out. */
const SMALL_ORDER: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  P - 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
])

/** Smaller than 2^256, congruent modulo P: 2^255 is 19. */
function fold(value: bigint): bigint {
  const once = (value & MASK) + 19n * (value >> 255n)
  return (once & MASK) + 19n * (once >> 255n)
}

function square(value: bigint, times: number): bigint {
  let result = value
  for (let n = 0; n < times; n++) result = fold(result * result)
  return result
}

/** value^((P−1)/2) is 1 for squares; the exponent 2^254 − 10 by the usual addition chain. */
function isSquare(value: bigint): boolean {
  const times = (a: bigint, n: number, b: bigint): bigint => fold(square(a, n) * b)
  const e2 = times(value, 1, value) // e<n> is value^(2^n − 1)
  const e4 = times(e2, 2, e2)
  const e5 = times(e4, 1, value)
  const e10 = times(e5, 5, e5)
  const e20 = times(e10, 10, e10)
  const e40 = times(e20, 20, e20)
  const e50 = times(e40, 10, e10)
  const e100 = times(e50, 50, e50)
  const e200 = times(e100, 100, e100)
  const e250 = times(e200, 50, e50)
  return fold(square(e250, 4) * fold(e2 * e2)) % P === 1n // 2^254 − 16, and 6
}

/** Keys lately found good: a certificate's key is looked at three times, the authority's always. */
const found = new Set<string>()
const FOUND_KEPT = 256

export function isEd25519Key(bytes: Uint8Array): boolean {
  if (bytes.length !== 32) return false
  const hex = Buffer.from(bytes).reverse().toString('hex')
  if (found.has(hex)) return true
  const y = BigInt(`0x${hex}`) & MASK
  if (y >= P || SMALL_ORDER.has(y)) return false
  const y2 = fold(y * y)
  // x² = (y² − 1) / (d·y² + 1); dividing and multiplying are the same for being a square
  if (!isSquare(fold((y2 + P - 1n) * fold(D * y2 + 1n)))) return false
  if (found.size >= FOUND_KEPT) found.delete(found.values().next().value as string)
  found.add(hex)
  return true
}
