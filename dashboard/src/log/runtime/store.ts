// Lines of running services, or requests, outside React: pages that join without a gap, the newest of them live. Older and
// newer ones load on demand, and the far end is dropped beyond a bound. PURE: the session (session.ts) fills it.
import type { RuntimeRecord } from './records.ts'

/** Rows in memory; the server keeps the others. */
const MOST_ROWS = 20_000
/** Live batches are joined up to this size. */
const PAGE_ROWS = 500

export interface RuntimeRow {
  /** Unchanged while the row is in memory; rows before it have lower ones. */
  key: number
  record: RuntimeRecord
}

interface Page {
  rows: RuntimeRow[]
  /** The position before its first row; null: nothing is older. */
  older: string | null
  newer: string
}

export class RuntimeStore {
  #pages: Page[] = []
  #first = 0
  #next = 0
  #all: RuntimeRow[] | undefined

  get rows(): RuntimeRow[] {
    this.#all ??= this.#pages.flatMap(({ rows }) => rows)
    return this.#all
  }

  /** Undefined before the first page. */
  get older(): string | null | undefined {
    return this.#pages[0]?.older
  }

  get newer(): string | undefined {
    return this.#pages.at(-1)?.newer
  }

  clear(): void {
    this.#pages = []
    this.#first = 0
    this.#next = 0
    this.#all = undefined
  }

  prepend(records: readonly RuntimeRecord[], older: string | null, newer: string): void {
    this.#first -= records.length
    const from = this.#first
    const rows = records.map((record, n) => ({ key: from + n, record }))
    this.#pages.unshift({ rows, older, newer })
    this.#all = undefined
  }

  append(records: readonly RuntimeRecord[], newer: string): void {
    const rows = records.map((record, n) => ({ key: this.#next + n, record }))
    this.#next += records.length
    const last = this.#pages.at(-1)
    if (last && (last.rows.length < PAGE_ROWS || rows.length === 0)) {
      last.rows.push(...rows)
      last.newer = newer
    } else this.#pages.push({ rows, older: last?.newer ?? null, newer })
    this.#all = undefined
  }

  /** True when newer rows were dropped; then the end is no longer the newest line. */
  trim(end: 'older' | 'newer'): boolean {
    let isCut = false
    while (this.rows.length > MOST_ROWS && this.#pages.length > 1) {
      if (end === 'older') this.#pages.shift()
      else this.#pages.pop()
      this.#all = undefined
      isCut = true
    }
    return isCut && end === 'newer'
  }
}
