// Which channels hear of a happening, and what becomes of a failed try. PURE.
import { type Happening, isAboutServer, type NoticeEnvironment } from '@berth/shared'
import { NOTICES } from '../../limits/notices.ts'

interface Rule {
  channelId: number
  projectId: number | null
  environmentType: NoticeEnvironment | null
  happenings: readonly Happening[]
}

/** What a happening is about, as far as rules ask for it. */
interface NoticeSubject {
  projectId: number | null
  /** Empty if it is about no environment. */
  environmentTypes: readonly NoticeEnvironment[]
}

const isMatch = (rule: Rule, about: NoticeSubject, happening: Happening): boolean =>
  rule.happenings.includes(happening) &&
  (rule.projectId === null || rule.projectId === about.projectId) &&
  (rule.environmentType === null || about.environmentTypes.includes(rule.environmentType))

/**
 * The channels that hear of it, each once, with the first of the words that one of its rules names. A recovery is also
 * a success, so it comes with two words.
 */
export function chooseChannels(
  rules: readonly Rule[],
  about: NoticeSubject,
  words: readonly Happening[],
): Map<number, Happening> {
  const chosen = new Map<number, Happening>()
  for (const happening of words) {
    for (const rule of rules) {
      if (!chosen.has(rule.channelId) && isMatch(rule, about, happening)) {
        chosen.set(rule.channelId, happening)
      }
    }
  }
  return chosen
}

/** A rule for a project or a type of environment that names only servers would never match. */
export const canMatch = (rule: Omit<Rule, 'channelId'>): boolean =>
  (rule.projectId === null && rule.environmentType === null) ||
  !rule.happenings.every(isAboutServer)

/** Why a try failed: `later`: it may work later; `refused`: this one was refused; `gone`: the receiver wants no more. */
export interface FailedTry {
  kind: 'later' | 'refused' | 'gone'
  /** What the receiver asked for. */
  retryAfterMs?: number | undefined
  /** A mail server refused the address for good, so one try is enough. */
  isFinal?: boolean
}

interface Verdict {
  /** Null: given up. */
  nextAt: number | null
  /** Notices in a row that were refused for good. */
  refused: number
  isBroken: boolean
}

/** `tries` counts this one; `refused` counts the notices before it. */
export function judgeFailure(
  failed: FailedTry,
  { tries, refused, now }: { tries: number; refused: number; now: number },
): Verdict {
  const pause = NOTICES.backoffMs[tries - 1]
  const asked = Math.min(failed.retryAfterMs ?? 0, NOTICES.retryAfterMs)
  if (failed.kind === 'gone') return { nextAt: null, refused: refused + 1, isBroken: true }
  if (failed.kind === 'refused' && (failed.isFinal || tries >= NOTICES.refusedTries)) {
    const inRow = refused + 1
    return { nextAt: null, refused: inRow, isBroken: inRow >= NOTICES.refusedInRow }
  }
  if (pause === undefined) return { nextAt: null, refused, isBroken: true }
  return { nextAt: now + Math.max(pause, asked), refused, isBroken: false }
}

/** The meaning of a status that is no success. */
export function judgeStatus(status: number): FailedTry['kind'] {
  if (status === 410) return 'gone'
  const isTemporary = status === 408 || status === 425 || status === 429 || status >= 500
  return isTemporary ? 'later' : 'refused'
}

/** Seconds or a date, as HTTP defines it; undefined for anything else. */
export function readRetryAfter(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  if (/^\d{1,9}(\.\d{1,9})?$/.test(header)) return Math.ceil(Number(header) * 1_000)
  const at = Date.parse(header)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
