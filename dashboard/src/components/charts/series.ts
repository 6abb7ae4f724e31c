// What a chart shows.

export interface Series {
  label: string
  /** One for each time; null where nothing was measured. */
  values: readonly (number | null)[]
  /** Failures are drawn in the colour of failures. */
  tone?: 'bad' | 'warn' | undefined
}

export interface ChartProps {
  label: string
  /** Milliseconds, oldest first. */
  times: readonly number[]
  /** At most four. */
  series: readonly Series[]
  /** How a value is written: "412 MB". */
  format(value: number): string
  /** Values are bytes: the lines of the grid are at 128, 256 and 512 MB, not at 100 and 200. */
  isBytes?: boolean | undefined
  /** The value at full height; otherwise the largest one. */
  max?: number | undefined
  height?: number | undefined
  /** Charts with the same key move their cursors together. */
  syncKey?: string | undefined
}
