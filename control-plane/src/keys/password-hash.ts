// bcrypt for Basic Auth, the form that the edge verifies. It hashes one password at a time, in slices between other
// work, and limits the queue, so that hashing cannot stall the control plane.
import { AppError } from '@berth/shared'
import bcrypt from 'bcryptjs'
import { BASIC_AUTH } from '../limits/keys.ts'

let line: Promise<unknown> = Promise.resolve()
let waiting = 0

export async function hashPassword(password: string): Promise<string> {
  if (waiting >= BASIC_AUTH.waitingHashes) {
    throw new AppError('unavailable', 'Too many passwords are being set at once. Try again.')
  }
  waiting += 1
  const mine = line.then(() => bcrypt.hash(password, BASIC_AUTH.cost))
  line = mine.catch(() => undefined)
  try {
    return await mine
  } finally {
    waiting -= 1
  }
}
