// The files through which daemon and runner of one attempt communicate. Either may die at any moment, so a file is
// created once (claim), replaced atomically (spec) or appended with checksums (events, log); no file is edited.
//
//   spec.bin     daemon, before the spawn   the Assignment without secrets
//   claim.json   first process to create it runner: it runs the attempt; daemon: abandoned, no process will run it
//   events.log   runner                     framed events (event-file.ts); a terminal AttemptChanged is the last
//   log/         runner                     spool (spool/format.ts)
//   stop         daemon                     stop request with its reason; read on start, on SIGUSR2, every second
//   hosts.ask    runner                     hostnames it wants to serve (hostname-files.ts)
//   hosts.answer daemon                     the control plane's answer
//   runner.log   runner's own stderr        for debugging a runner that died
import { linkSync, readFileSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { syncFolder, writeAndSync } from '../machine/atomic-files.ts'
import { readStartTicks } from '../machine/process/processes.ts'

interface Claim {
  by: 'runner' | 'daemon'
  /** The runner's process: pid and start ticks identify it for ever, a pid alone does not. */
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
 * True when this call created the claim; false when another process was first. The file appears with its content or not
 * at all (it is a link to a written file), so that a daemon never reads half a claim.
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

/** Undefined without a claim; a damaged claim (a broken disk) counts as that of an unknown process. */
export function readClaim(dir: string): Claim | undefined {
  try {
    return JSON.parse(readFileSync(attemptPaths(dir).claim, 'utf8')) as Claim
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    return { by: 'runner', pid: 0, startTicks: '', bootId: '', format: 1 }
  }
}
