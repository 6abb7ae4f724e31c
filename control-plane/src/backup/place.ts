// What a folder and a bucket have in common.
import type { Readable } from 'node:stream'

export interface StoredBackup {
  name: string
  bytes: number
  takenAt: number
}

export interface Place {
  /** For messages; never with credentials. */
  readonly title: string
  /** Undefined: unknown, as in a bucket. */
  freeBytes(): Promise<number | undefined>
  /** After a failure nothing is left. Returns the size. */
  write(name: string, content: Readable): Promise<number>
  read(name: string): Promise<Readable>
  list(): Promise<StoredBackup[]>
  remove(name: string): Promise<void>
}
