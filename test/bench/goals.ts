// The goals of a bench. Each prints `ok` or `MISSED`; one miss makes the command exit 1. A goal is a ratio to a floor that
// the same run measured, so that a busy machine changes both sides.
import { spawnSync } from 'node:child_process'
import { percentile, round } from './figures.ts'

let missed = 0

export function goal(what: string, isMet: boolean, detail: string): boolean {
  if (!isMet) missed += 1
  console.log(`${isMet ? 'ok    ' : 'MISSED'} ${what}: ${detail}`)
  return isMet
}

/** `value` may be at most `most`. */
export const goalAtMost = (what: string, value: number, most: number, unit: string): boolean =>
  goal(what, value <= most, `${round(value)} ${unit} (goal: at most ${most})`)

/** `value` must be at least `least`. */
export const goalAtLeast = (what: string, value: number, least: number, unit: string): boolean =>
  goal(what, value >= least, `${round(value)} ${unit} (goal: at least ${least})`)

export const hasMissed = (): boolean => missed > 0

/** Starts of a Node.js process that does nothing: how fast this machine is at this moment. */
export function startOfNode(rounds = 15): number {
  const times = Array.from({ length: rounds }, () => {
    const began = performance.now()
    spawnSync(process.execPath, ['-e', '0'])
    return performance.now() - began
  })
  return percentile(times, 50)
}
