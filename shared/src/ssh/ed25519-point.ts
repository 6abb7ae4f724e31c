// Checks that 32 bytes are an Ed25519 public key with a usable secret: the canonical encoding of a point on the curve,
// and not one of the eight points of small order, for which signatures can be forged. OpenSSL imports all of these
// without an error. The values are public, so nothing here needs constant time.
const P = (1n << 255n) - 19n
const MASK = (1n << 255n) - 1n
/** d of the curve −x² + y² = 1 + d·x²·y². */
const D = 0x52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3n
/** y of the points of order 1, 2, 4 and 8, without the sign of x. */
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

/** Shift widths as bigint, created once. */
const SHIFTS = Array.from({ length: 30 }, (_, zeros) => BigInt(zeros))

/**
 * The Jacobi symbol by Euclid's algorithm and quadratic reciprocity: 1 for squares modulo the prime. Reciprocity needs
 * only the lowest bits, kept as plain numbers, so each step has three operations on long ones.
 */
function isSquare(value: bigint): boolean {
  let [a, n] = [value % P, P]
  let nLow = Number(n & 7n)
  let isNegative = false
  while (a !== 0n) {
    const low = Number(BigInt.asUintN(32, a)) | 0
    // at most 29 at a time, so that three bits above them remain
    const zeros = low === 0 ? 29 : Math.min(29, 31 - Math.clz32(low & -low))
    if (zeros % 2 === 1 && (nLow === 3 || nLow === 5)) isNegative = !isNegative
    if (zeros > 0) a >>= SHIFTS[zeros] as bigint
    const aLow = (low >>> zeros) & 7
    if (aLow % 2 === 0) continue // still even
    if (aLow % 4 === 3 && nLow % 4 === 3) isNegative = !isNegative
    ;[a, n, nLow] = [n % a, a, aLow]
  }
  return n === 1n && !isNegative
}

/** Keys recently found valid: a certificate's key is checked three times, the authority's always. */
const found = new Set<string>()
const FOUND_KEPT = 256

export function isEd25519Key(bytes: Uint8Array): boolean {
  if (bytes.length !== 32) return false
  const hex = Buffer.from(bytes).reverse().toString('hex')
  if (found.has(hex)) return true
  const y = BigInt(`0x${hex}`) & MASK
  if (y >= P || SMALL_ORDER.has(y)) return false
  const y2 = fold(y * y)
  // x² = (y² − 1) / (d·y² + 1); a quotient is a square exactly if the product is
  if (!isSquare(fold((y2 + P - 1n) * fold(D * y2 + 1n)))) return false
  if (found.size >= FOUND_KEPT) found.delete(found.values().next().value as string)
  found.add(hex)
  return true
}
