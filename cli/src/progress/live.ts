// The part of the terminal that is redrawn in place: a block of lines, or a spinner during a slow request. Exists only
// where stderr is a terminal with colours; elsewhere plain lines are written instead. The cursor is never hidden, so a
// killed client leaves nothing to repair.

import type { Api } from '../client/api.ts'
import { CLIENT } from '../limits/client.ts'
import type { Sink } from '../terminal/io.ts'

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
export const spinnerFrame = (frame: number): string => FRAMES[frame % FRAMES.length] ?? '⠋'

/** Lines for one frame; each already fits the given width. */
type Render = (frame: number, width: number) => readonly string[]

export class LiveBlock {
  readonly #sink: Sink
  #render: Render | undefined
  #timer: NodeJS.Timeout | undefined
  #frame = 0
  #height = 0
  /** Frames are dropped while the terminal has not taken the last one. */
  #writing: Promise<void> = Promise.resolve()
  #busy = false

  constructor(sink: Sink) {
    this.#sink = sink
  }

  start(render: Render): void {
    this.#render = render
    this.#draw()
    this.#timer ??= setInterval(() => this.#draw(), CLIENT.frameMs)
    this.#timer.unref()
  }

  /** Removes the block; later output takes its place. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#render = undefined
    await this.#writing
    const erase = this.#erase()
    this.#height = 0
    if (erase) await this.#sink.write(erase)
  }

  #erase(): string {
    return this.#height > 0 ? `\u001b[${this.#height}A\r\u001b[J` : ''
  }

  #draw(): void {
    if (this.#busy || !this.#render) return
    // one column and one row stay free: a full line would wrap, a full screen would scroll
    const lines = this.#render(this.#frame++, this.#sink.columns - 1).slice(-(this.#sink.rows - 1))
    const text = this.#erase() + lines.map((line) => `${line}\n`).join('')
    this.#height = lines.length
    this.#busy = true
    this.#writing = this.#sink
      .write(text)
      .catch(() => {})
      .finally(() => {
        this.#busy = false
      })
  }
}

/** Runs `work`; shows a spinner if it takes longer than a moment. */
async function withSpinner<T>(sink: Sink, label: string, work: () => Promise<T>): Promise<T> {
  const block = new LiveBlock(sink)
  const timer = setTimeout(
    () => block.start((frame) => [`${spinnerFrame(frame)} ${label}`]),
    CLIENT.spinnerAfterMs,
  )
  try {
    return await work()
  } finally {
    clearTimeout(timer)
    await block.stop()
  }
}

/** The same API with a spinner while it is slow. Polls and streams have their own display. */
export function spinWhileAsking(api: Api, sink: Sink): Api {
  const label = `Waiting for ${api.baseUrl.replace(/^https?:\/\//, '')}…`
  const spin = <T>(work: () => Promise<T>) => withSpinner(sink, label, work)
  return {
    ...api,
    ask: (...words) => spin(() => api.ask(...words)),
    get: (...words) => spin(() => api.get(...words)),
    post: (...words) => spin(() => api.post(...words)),
    change: (...words) => spin(() => api.change(...words)),
    list: (...words) => spin(() => api.list(...words)),
  }
}
