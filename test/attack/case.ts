// One attack: what must not happen, the honest request that shows the attack would be visible, and the attack itself. A
// verdict counts only with its control: an attack that fails because nothing works proves nothing.
import type { AttackedInstallation } from './target.ts'

export interface Case {
  subject: string
  /** The property that holds, as a sentence. */
  title: string
  /** The same request with honest intent; throws if it does not work. */
  control: (installation: AttackedInstallation) => Promise<unknown>
  /** What the attacker got; undefined if nothing. */
  attack: (installation: AttackedInstallation) => Promise<string | undefined>
  /** Also runs in `npm test`. */
  isImportant?: boolean
}

export interface Verdict {
  attack: Case
  /** Undefined if it held. */
  broken: string | undefined
}

const CASE_MS = 240_000

const inTime = async <T>(what: string, work: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took longer than 4 min`)), CASE_MS)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message.split('\n').slice(0, 3).join(' ') : String(error)

/** An attack that could not be carried out proves nothing and counts as broken. */
export async function judge(installation: AttackedInstallation, attack: Case): Promise<Verdict> {
  try {
    await inTime('the control', attack.control(installation))
  } catch (error) {
    return { attack, broken: `control failed: ${messageOf(error)}` }
  }
  try {
    return { attack, broken: await inTime('the attack', attack.attack(installation)) }
  } catch (error) {
    return { attack, broken: `the attack could not be made: ${messageOf(error)}` }
  }
}

/** An assertion for controls. */
export function must(condition: unknown, sentence: string): asserts condition {
  if (!condition) throw new Error(sentence)
}

/** The first matching line of the result, for a verdict. */
export const found = (text: string, pattern: RegExp | string): string | undefined => {
  const isIn = typeof pattern === 'string' ? text.includes(pattern) : pattern.test(text)
  return isIn ? `got ${JSON.stringify(text.slice(0, 200))}` : undefined
}
