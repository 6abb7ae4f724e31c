// When something needs people, and when it does not any more. Between the two nothing is said: an alert has a beginning
// and an end with a gap between their conditions, so that a server at the edge is one episode and not a hundred.
import { ALERTS } from '@berth/shared'

/** What an alert does next; undefined: nothing. */
export type Turn = 'begin' | 'end' | undefined

const turn = (isOpen: boolean, isBad: boolean, isGood: boolean): Turn => {
  if (!isOpen) return isBad ? 'begin' : undefined
  return isGood ? 'end' : undefined
}

export interface WatchedServer {
  connected: boolean
  paused: boolean
  /** Since when nobody is connected. */
  awaySince: number
  diskBytes: number | null
  diskFreeBytes: number | null
  certificate: { issuedAt: number; notAfter: number } | undefined
}

/** A paused server is being worked on: nobody is told that it is away. */
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

/** What a server that is away said last is no news. */
export function judgeDisk(isOpen: boolean, s: WatchedServer): Turn {
  if (!s.connected || !s.diskBytes || s.diskFreeBytes === null) return undefined
  const floor = diskFloor(s.diskBytes)
  return turn(isOpen, s.diskFreeBytes < floor, s.diskFreeBytes >= floor * ALERTS.diskRecovery)
}

/** Renewal comes before 80 % of a certificate's life; one that is older than 85 % is not being renewed. */
export function judgeCertificate(isOpen: boolean, s: WatchedServer, now: number): Turn {
  if (!s.certificate) return undefined
  const { issuedAt, notAfter } = s.certificate
  const isOld = notAfter - now < (notAfter - issuedAt) * ALERTS.certificatePart
  return turn(isOpen, s.connected && isOld, !isOld)
}

/** Of a project: the newest delivery that was decided. */
export const judgeDeliveries = (isOpen: boolean, newest: { outcome: string } | undefined): Turn =>
  turn(isOpen, newest?.outcome === 'error', newest?.outcome !== 'error')
