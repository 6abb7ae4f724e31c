// The log of a task over connections that may break. Requests numbered records (NDJSON): a line with its ending, or a
// piece of one, several with the same number; lines of plain text are counted instead. A reconnect starts at the last
// number seen and skips what it already had, so nothing is lost or doubled. The end of a stream says nothing about the
// task.
import { isFinished } from '@berth/shared'
import { LogLine, Task } from '@berth/shared/api'
import { CLIENT } from '../limits/client.ts'
import { EXIT, interrupted } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import type { Api } from './api.ts'
import type { Query } from './http.ts'
import { ApiFailure, noAnswer } from './problem.ts'
import type { Reply, ReplyHeaders } from './transport.ts'
import { pauseMs, pollInterval } from './wait.ts'

/** A piece of the log as received. */
interface LogRecord {
  /** null: the server counts, but did not send the number (plain text with a filter). */
  n: number | null
  /** With its line ending, if it has one. */
  text: string
  line: LogLine | null
}

export interface LogRequest {
  taskId: number
  fromLine: number
  phase: string | undefined
  follow: boolean
}

export const LOG_ACCEPT = { accept: 'application/x-ndjson, text/plain;q=0.5' }
export const logPath = (taskId: number): string => `/api/tasks/${taskId}/log`

const isNumbered = (headers: ReplyHeaders): boolean =>
  (headers.get('content-type') ?? '').startsWith('application/x-ndjson')

function parseNumbered(line: string): LogRecord {
  try {
    const parsed = LogLine.parse(JSON.parse(line))
    return { n: parsed.n, text: parsed.text, line: parsed }
  } catch {
    throw new ApiFailure('nonsense', EXIT.error, 'the log is not what it should be')
  }
}

/** The body as it arrives; throws when it is cut short. Ctrl-C ends it. */
export async function* chunksOf(response: Reply, api: Api, io: Io): AsyncGenerator<Uint8Array> {
  const chunks = response.body[Symbol.asyncIterator]()
  const stop = () => response.cancel()
  io.interrupted.addEventListener('abort', stop, { once: true })
  try {
    for (;;) {
      const next = await chunks.next().catch((error: unknown) => ({ error }))
      if (io.interrupted.aborted) throw interrupted()
      if ('error' in next) throw noAnswer(next.error, api.baseUrl, false)
      if (next.done) return
      yield next.value
    }
  } finally {
    io.interrupted.removeEventListener('abort', stop)
    stop()
  }
}

/** Lines with their endings. Drops the unfinished last line of a body that was cut. */
async function* linesOf(response: Reply, api: Api, io: Io): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunksOf(response, api, io)) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield `${line}\n`
    if (rest.length > CLIENT.logLineChars) {
      throw new ApiFailure('nonsense', EXIT.error, 'a line of the log is too long')
    }
  }
  rest += decoder.decode()
  if (rest !== '') yield rest
}

/** The last number seen, and how many records had it; initially 0 of the first line. */
interface Position {
  line: number
  records: number
  /** Lines of a filtered plain text have no known number. */
  countable: boolean
}

async function* readOnce(
  api: Api,
  io: Io,
  request: LogRequest,
  position: Position,
): AsyncGenerator<LogRecord> {
  const query: Query = {
    from_line: position.line,
    phase: request.phase,
    follow: request.follow ? 'true' : undefined,
  }
  const response = await api.stream(logPath(request.taskId), { query, headers: LOG_ACCEPT })
  const isNdjson = isNumbered(response.headers)
  position.countable = isNdjson || request.phase === undefined
  let counted = position.line
  let known = position.records
  for await (const line of linesOf(response, api, io)) {
    const record = isNdjson
      ? parseNumbered(line)
      : { n: position.countable ? counted++ : null, text: line, line: null }
    if (record.n !== null) {
      if (record.n < position.line) continue
      if (record.n === position.line && known-- > 0) continue // received before the connection broke
      position.records = record.n === position.line ? position.records + 1 : 1
      position.line = record.n
    }
    yield record
  }
}

const isPassing = (error: unknown): boolean =>
  error instanceof ApiFailure &&
  (error.kind === 'no_answer' || error.status === 429 || (error.status ?? 0) >= 500)

/** Whether everything was returned; checked when a followed stream has ended. */
async function isComplete(
  api: Api,
  request: LogRequest,
  position: Position,
  sawRecords: boolean,
): Promise<boolean> {
  const { value: task } = await api.get(`/api/tasks/${request.taskId}`, Task)
  if (!isFinished(task.status)) return false
  return !sawRecords || (task.log_complete && task.log_lines <= position.line)
}

/** Everything from `fromLine` on; with `follow` until the task has ended and its whole log was read. */
export async function* readRecords(
  api: Api,
  io: Io,
  request: LogRequest,
  onLost: (reason: string) => Promise<void> = async () => {},
): AsyncGenerator<LogRecord> {
  const position: Position = { line: request.fromLine, records: 0, countable: true }
  let failures = 0
  let lastContactAt = io.now()
  for (;;) {
    let sawRecords = false
    try {
      for await (const record of readOnce(api, io, request, position)) {
        sawRecords = true
        failures = 0
        lastContactAt = io.now()
        yield record
      }
      if (!request.follow || (await isComplete(api, request, position, sawRecords))) return
      failures = 0
      lastContactAt = io.now()
    } catch (error) {
      if (!isPassing(error) || (sawRecords && !position.countable)) throw error
      const tired = request.follow
        ? failures > CLIENT.retries && io.now() - lastContactAt >= CLIENT.noContactMs
        : failures >= CLIENT.retries
      if (tired) throw error
      if (failures++ === 0) await onLost((error as Error).message)
    }
    await io.sleep(pauseMs(pollInterval(io), 0, failures))
  }
}

export interface NumberedLine {
  n: number | null
  text: string
}

/** Joins pieces: a line ends with its line ending, or where another number begins. */
export class LineAssembly {
  #n: number | null = null
  #text = ''

  /** The lines that are now complete. */
  add({ n, text }: Pick<LogRecord, 'n' | 'text'>): NumberedLine[] {
    const lines = this.#text !== '' && n !== this.#n ? this.end() : []
    if (this.#text === '') this.#n = n
    const [first = '', ...more] = text.split('\n')
    let open = this.#text + first
    for (const next of more) {
      lines.push({ n: this.#n, text: open })
      this.#n = this.#n === null ? null : this.#n + 1
      open = next
    }
    this.#text = open
    // an endless line is shown in parts, so that the buffer stays bounded
    return open.length > CLIENT.logLineChars ? [...lines, ...this.end()] : lines
  }

  end(): NumberedLine[] {
    const lines = this.#text === '' ? [] : [{ n: this.#n, text: this.#text }]
    this.#text = ''
    return lines
  }
}

/** The same as complete lines, without their endings. */
export async function* readLines(
  ...words: Parameters<typeof readRecords>
): AsyncGenerator<NumberedLine> {
  const assembly = new LineAssembly()
  for await (const record of readRecords(...words)) yield* assembly.add(record)
  yield* assembly.end()
}

/** The lines of an answer that has arrived completely. */
export function parseLines(text: string, headers: ReplyHeaders): NumberedLine[] {
  const assembly = new LineAssembly()
  const isNdjson = isNumbered(headers)
  if (!isNdjson) return [...assembly.add({ n: null, text }), ...assembly.end()]
  const records = text.split('\n').filter((line) => line !== '')
  return [...records.flatMap((line) => assembly.add(parseNumbered(line))), ...assembly.end()]
}
