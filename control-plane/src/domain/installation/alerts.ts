// When an alert begins and when it ends. The two conditions differ, with a gap between them, so that a server at the
// threshold causes one episode and not a hundred.
import { ALERTS } from '../../limits/installation.ts'

/** The next change of an alert; undefined for none. */
export type Turn = 'begin' | 'end' | undefined

const turn = (isOpen: boolean, isBad: boolean, isGood: boolean): Turn => {
  if (!isOpen) return isBad ? 'begin' : undefined
  return isGood ? 'end' : undefined
}

export interface WatchedServer {
  connected: boolean
  paused: boolean
  /** Since when its agent is disconnected. */
  awaySince: number
  diskBytes: number | null
  diskFreeBytes: number | null
  certificate: { issuedAt: number; notAfter: number } | undefined
}

/** A paused server is under maintenance, so its absence begins no alert. */
export const judgeOffline = (isOpen: boolean, s: WatchedServer, now: number): Turn =>
  turn(
    isOpen,
    !s.connected && !s.paused && now - s.awaySince >= ALERTS.serverOfflineMs,
    s.connected,
  )

export function diskFloor(diskBytes: number): number {
  const part = diskBytes * ALERTS.diskFreePart
  return Math.min(Math.max(part, ALERTS.diskFreeMinBytes), ALERTS.diskFreeMaxBytes)
}

/** The last report of an offline server is too old to judge. */
export function judgeDisk(isOpen: boolean, s: WatchedServer): Turn {
  if (!s.connected || !s.diskBytes || s.diskFreeBytes === null) return undefined
  const floor = diskFloor(s.diskBytes)
  return turn(isOpen, s.diskFreeBytes < floor, s.diskFreeBytes >= floor * ALERTS.diskRecovery)
}

/** Renewal comes before 80 % of a certificate's life, so beyond 85 % renewal is failing. */
export function judgeCertificate(isOpen: boolean, s: WatchedServer, now: number): Turn {
  if (!s.certificate) return undefined
  const { issuedAt, notAfter } = s.certificate
  const isOld = notAfter - now < (notAfter - issuedAt) * ALERTS.certificatePart
  return turn(isOpen, s.connected && isOld, !isOld)
}

/** A failed check must repeat before an agent reports it, so the first report counts. */
export const judgeDegraded = (isOpen: boolean, reason: string | null): Turn =>
  turn(isOpen, reason !== null, reason === null)

/** The last check of a project's forge found something broken. */
export const judgeForge = (isOpen: boolean, isFailing: boolean): Turn =>
  turn(isOpen, isFailing, !isFailing)

/** Judges an environment by its newest scheduled backup that was tried; undefined: none was. */
export const judgeBackups = (isOpen: boolean, newest: string | undefined): Turn =>
  turn(isOpen, newest === 'failed', newest === 'succeeded')

/** Judges a project by its newest decided delivery. */
export const judgeDeliveries = (isOpen: boolean, newest: { outcome: string } | undefined): Turn =>
  turn(isOpen, newest?.outcome === 'error', newest?.outcome !== 'error')
