// The last line that each step of a running task wrote, read from the end of its log now and then. A failure to read it
// is silent: the wait itself says what is wrong.
import { LogLine, type Task } from '@berth/shared/api'
import type { Api } from '../client/api.ts'
import { LOG_ACCEPT, logPath } from '../client/log-stream.ts'
import { CLIENT } from '../limits/client.ts'
import { cleanLogLine } from '../terminal/text.ts'

export class LastLines {
  readonly #api: Api
  readonly #lines = new Map<string, string>()
  #seen = 0
  #isReading = false

  constructor(api: Api) {
    this.#api = api
  }

  /** By the name of the step. */
  of(step: string): string | undefined {
    return this.#lines.get(step)
  }

  /** Reads what was added since; at most one request at a time. */
  async refresh({ id, log_lines: count }: Pick<Task, 'id' | 'log_lines'>): Promise<void> {
    if (this.#isReading || count <= this.#seen) return
    this.#isReading = true
    const from = Math.max(this.#seen + 1, count - CLIENT.lastLinesRead + 1)
    this.#seen = count
    try {
      const answer = await this.#api.ask('GET', logPath(id), {
        query: { from_line: from, lines: CLIENT.lastLinesRead },
        headers: LOG_ACCEPT,
        retries: 0,
        timeoutMs: CLIENT.excerptMs,
      })
      const isRead = (answer.headers.get('content-type') ?? '').startsWith('application/x-ndjson')
      if (answer.status === 200 && isRead) this.#take(answer.text)
    } catch {
      // without contact there is nothing to add
    } finally {
      this.#isReading = false
    }
  }

  #take(text: string): void {
    for (const line of text.split('\n')) {
      if (line === '') continue
      const record = LogLine.parse(JSON.parse(line))
      // a progress bar rewrites its line; its last version counts
      const shown = cleanLogLine(record.text.trimEnd().split('\r').at(-1) ?? '', false).trim()
      if (record.step !== null && shown !== '') this.#lines.set(record.step, shown)
    }
  }
}
