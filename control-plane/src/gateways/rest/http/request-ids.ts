// Generates request ids for logs and fault reports: 72 random bits each, drawn in batches.
import { randomFillSync } from 'node:crypto'

const BYTES = 9
const drawn = Buffer.alloc(BYTES * 400)
let next = drawn.length

export function requestId(): string {
  if (next >= drawn.length) {
    randomFillSync(drawn)
    next = 0
  }
  next += BYTES
  return `req_${drawn.toString('base64url', next - BYTES, next)}`
}
