// Open readers of the attempts' log spools, kept across sessions, because opening one scans its segments. A reader
// exists as long as its attempt; the runner creates the folder, so it may be missing at first.
import { existsSync } from 'node:fs'
import { attemptPaths } from '../journal/attempt-files.ts'
import type { Journal } from '../journal/journal.ts'
import { type AgentSettings, attemptDir } from '../settings.ts'
import { SpoolReader } from '../spool/reader.ts'

export class Spools {
  readonly #settings: AgentSettings
  readonly #journal: Journal
  readonly #readers = new Map<string, SpoolReader>()

  constructor(settings: AgentSettings, journal: Journal) {
    this.#settings = settings
    this.#journal = journal
  }

  folder(attemptId: string): string {
    return attemptPaths(attemptDir(this.#settings, attemptId)).log
  }

  find(attemptId: string): SpoolReader | undefined {
    const open = this.#readers.get(attemptId)
    if (open) return open
    const folder = this.folder(attemptId)
    if (!existsSync(folder)) return undefined
    const acked = Number(this.#journal.attempts.logCursor(attemptId))
    const reader = SpoolReader.open(folder, acked)
    this.#readers.set(attemptId, reader)
    return reader
  }

  forget(attemptId: string): void {
    this.#readers.get(attemptId)?.close()
    this.#readers.delete(attemptId)
  }

  close(): void {
    for (const id of [...this.#readers.keys()]) this.forget(id)
  }
}
