// The files through which daemon and runner of one attempt talk. Either may die at any moment, so a file is
// created once (claim), replaced whole (spec) or appended with checksums (events, log); nothing is edited.
//
//   spec.bin     daemon, before the spawn   the Assignment, secrets removed
//   claim.json   whoever creates it first   runner: "I run it"; daemon: abandoned, "nobody will ever run it"
//   events.log   runner                     framed events (event-file.ts); a terminal AttemptChanged is the last
//   log/         runner                     spool (spool/format.ts)
//   stop         daemon                     stop was asked, and why; looked at on start, on SIGUSR2, every second
//   hosts.ask    runner                     host names it wants to serve (hostname-files.ts)
//   hosts.answer daemon                     what the control plane says of them
//   runner.log   runner's own stderr        what a person reads when a runner died
import { linkSync, readFileSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder, writeAndSync } from '../machine/atomic-files.ts'
import { readStartTicks } from '../machine/process/processes.ts'

export interface Claim {
  by: 'runner' | 'daemon'
  /** Of the runner: pid and start ticks name a process for ever, a pid alone does not. */
  pid: number
  startTicks: string
  bootId: string
  format: 1
}

export const attemptPaths = (dir: string) => ({
  spec: join(dir, 'spec.bin'),
  claim: join(dir, 'claim.json'),
  events: join(dir, 'events.log'),
  log: join(dir, 'log'),
  stop: join(dir, 'stop'),
  hostsAsk: join(dir, 'hosts.ask'),
  hostsAnswer: join(dir, 'hosts.answer'),
  runnerLog: join(dir, 'runner.log'),
})

/**
 * True when this call created the claim; false when somebody was first. The file appears with its content or not at
 * all (a link to a written one): a daemon that looks at the wrong moment must not read half a claim.
 */
export function takeClaim(dir: string, by: Claim['by'], bootId: string): boolean {
  const claim: Claim = {
    by,
    pid: process.pid,
    startTicks: readStartTicks(process.pid) ?? '',
    bootId,
    format: 1,
  }
  const temporary = `${attemptPaths(dir).claim}.${by}.${process.pid}`
  writeAndSync(temporary, 'w', JSON.stringify(claim), 0o600)
  try {
    linkSync(temporary, attemptPaths(dir).claim)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    unlinkSync(temporary)
    syncFolder(dir)
  }
}

/** Undefined when nobody claimed it; a damaged claim (a broken disk) counts as one of an unknown process. */
export function readClaim(dir: string): Claim | undefined {
  try {
    return JSON.parse(readFileSync(attemptPaths(dir).claim, 'utf8')) as Claim
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    return { by: 'runner', pid: 0, startTicks: '', bootId: '', format: 1 }
  }
}
