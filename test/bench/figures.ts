// Small statistics and process facts for the benches.
import { readdirSync, readFileSync } from 'node:fs'

export function percentile(values: number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor((p / 100) * sorted.length))] ?? Number.NaN
}

/** Resident memory of a process in MiB; 0 if it has ended. */
export function residentMiB(pid: number): number {
  try {
    const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
    return Number(line?.[1] ?? 0) / 1_024
  } catch {
    return 0
  }
}

/** Processes whose command line contains all these words. */
export function findProcesses(...words: string[]): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        return words.every((word) => line.includes(word))
      } catch {
        return false
      }
    })
    .map(Number)
}

export const round = (n: number, digits = 2): string => n.toFixed(digits)
export const thousands = (n: number): string => Math.round(n).toLocaleString('en-US')

export const MB_PER_MIB = 1.048576

/** Memory that its end would free: pages shared with other processes count in part. */
export function proportionalMB(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1')
  return Number(/^Pss: +(\d+) kB/m.exec(rollup)?.[1] ?? 0) * (MB_PER_MIB / 1_024)
}
