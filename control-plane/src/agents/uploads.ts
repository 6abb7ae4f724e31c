// Uploads of agents, as a stream of frames whose first one names the transfer. The other frames go where that transfer
// is expected: to a reader here, or on to another control plane.
import { AppError, TRANSFERS } from '@berth/shared'
import type { ContainerLogFrame, FileFrame } from '@berth/shared/wire'

export interface Frames {
  file: FileFrame
  container_logs: ContainerLogFrame
}
export type TransferKind = keyof Frames

/** The part of an upload that a transfer needs. */
export interface Upload<F> {
  on(event: 'data', listener: (frame: F) => void): unknown
  on(event: 'end' | 'cancelled' | 'close' | 'error', listener: () => void): unknown
  pause(): unknown
  resume(): unknown
}
/** Why an upload was not completed. */
export interface RefusedUpload {
  reason: 'late' | 'canceled' | 'unexpected'
  details: string
}
export type Done = (refused: RefusedUpload | null) => void

/** Where the frames of an upload go. */
export interface Sink<F> {
  begin(call: Upload<F>, done: Done): void
  take(frame: F): void
  /** The agent's side of the stream ended. */
  ended(): void
  fail(error: unknown): void
  /** Everything arrived, though the reader may not have read all of it. */
  readonly isComplete: boolean
}

/** The transfer broke off; the reader must not treat what it has as complete. */
export class BrokenTransfer extends AppError {
  constructor(message: string) {
    super('unavailable', message)
  }
}

export const broken = () => new BrokenTransfer('The connection to the server broke. Try again.')

/** The first frame names the transfer, the others go to its reader. */
export function receive<K extends TransferKind>(
  call: Upload<Frames[K]>,
  done: Done,
  find: (transferId: string) => Sink<Frames[K]> | undefined,
): void {
  let transfer: Sink<Frames[K]> | undefined
  let over = false
  const end = (error: Parameters<Done>[0]): void => {
    if (over) return
    over = true
    clearTimeout(timer)
    done(error)
  }
  const timer = setTimeout(() => {
    end({ reason: 'late', details: 'No header came.' })
  }, TRANSFERS.firstFrameMs)
  const cut = (): void => {
    if (transfer?.isComplete) return // its reader still takes what is queued
    if (!over) transfer?.fail(broken())
    end({ reason: 'canceled', details: 'It was cut.' })
  }
  call.on('error', cut) // first, because an error event without a listener ends the process
  call.on('cancelled', cut)
  call.on('close', cut)
  call.on('end', () => (transfer ? transfer.ended() : cut()))
  call.on('data', (frame) => {
    if (over) return
    if (transfer) {
      transfer.take(frame)
      return
    }
    const id = frame.frame.case === 'header' ? frame.frame.value.transferId : ''
    transfer = find(id)
    clearTimeout(timer)
    if (!transfer) {
      end({ reason: 'unexpected', details: 'Nobody expects this transfer.' })
      return
    }
    transfer.begin(call, end)
    transfer.take(frame)
  })
}
