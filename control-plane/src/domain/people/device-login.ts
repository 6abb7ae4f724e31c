// RFC 8628 and rotating refresh tokens as decisions: the answer to a poll, and what a refresh token may still do.
import { PEOPLE } from '@berth/shared'

export const USER_CODE_LETTERS = 'BCDFGHJKLMNPQRSTVWXZ' // no vowels and no letters that look alike
export const USER_CODE_CHARS = 8

export const showUserCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`

/** Reads what a user typed, ignoring case, dashes and blanks. Undefined if it cannot be a code. */
export function readUserCode(text: string): string | undefined {
  const code = text.toUpperCase().replaceAll(/[\s-]/g, '')
  const isCode =
    code.length === USER_CODE_CHARS && [...code].every((c) => USER_CODE_LETTERS.includes(c))
  return isCode ? code : undefined
}

interface DeviceFacts {
  status: 'pending' | 'approved' | 'denied' | 'spent'
  expiresAt: number
  polledAt: number | null
  intervalMs: number
}

type PollVerdict =
  | {
      kind: 'authorization_pending' | 'expired_token' | 'access_denied' | 'invalid_grant' | 'issue'
    }
  | { kind: 'slow_down'; intervalMs: number }

/** Answers that end the login come before the check of the polling rate. */
export function decidePoll(device: DeviceFacts | undefined, now: number): PollVerdict {
  if (!device || device.status === 'spent') return { kind: 'invalid_grant' }
  if (device.expiresAt <= now) return { kind: 'expired_token' }
  if (device.status === 'denied') return { kind: 'access_denied' }
  if (device.polledAt !== null && now - device.polledAt < device.intervalMs) {
    const slower = device.intervalMs + PEOPLE.deviceSlowDownMs
    return { kind: 'slow_down', intervalMs: Math.min(slower, PEOPLE.devicePollMaxMs) }
  }
  return { kind: device.status === 'approved' ? 'issue' : 'authorization_pending' }
}

interface RefreshFacts {
  expiresAt: number
  spentAt: number | null
  repeatedAt: number | null
  loginRevoked: boolean
  userDisabled: boolean
}

/** `revoke`: a used token was presented again, so another party has it, and the whole login ends. */
type RefreshVerdict = 'rotate' | 'repeat' | 'revoke' | 'refuse'

export function decideRefresh(token: RefreshFacts | undefined, now: number): RefreshVerdict {
  if (!token || token.loginRevoked || token.userDisabled) return 'refuse'
  if (token.spentAt !== null) {
    const inGrace = now - token.spentAt <= PEOPLE.refreshGraceMs && token.repeatedAt === null
    return inGrace ? 'repeat' : 'revoke'
  }
  return token.expiresAt <= now ? 'refuse' : 'rotate'
}
