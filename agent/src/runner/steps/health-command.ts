// What both recipes say about a health check by command.
import { STEPS, stripEscapes } from '@berth/shared'
import type { CommandCheck } from '../../machine/process/health.ts'
import { shown } from './command.ts'

export const shownCommand = ({ command }: CommandCheck): string =>
  `\`${shown(typeof command === 'string' ? command : command.join(' '))}\``

/** Collects the first bytes of some output, as one line. */
export function startExcerpt(): { add(chunk: Buffer): void; text(): string } {
  const parts: Buffer[] = []
  let kept = 0
  return {
    add(chunk) {
      if (kept >= STEPS.healthBodyBytes) return
      parts.push(chunk)
      kept += chunk.length
    },
    text: () =>
      stripEscapes(Buffer.concat(parts).subarray(0, STEPS.healthBodyBytes).toString('utf8'))
        .replaceAll(/[\p{Cc}\s]+/gu, ' ')
        .trim(),
  }
}
