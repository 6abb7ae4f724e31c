// Names of requests, for the logs and for whoever reports a fault: 72 random bits each, drawn many at a time.
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
