// berth api PATH: any endpoint, with the stored token. Writes the body to stdout unchanged, even if it is an error; the
// exit code is the same as for every other command.
import { randomUUID } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { REST } from '@berth/shared/limits'
import { type Api, nextPage } from '../client/api.ts'
import type { Answer, RequestOptions } from '../client/http.ts'
import { type Context, compose, flagList, flagOn, flagText, type Invocation } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../terminal/exit.ts'
import { cleanText, toJson } from '../terminal/text.ts'

interface ApiOptions {
  path: string
  method: string
  fields: [key: string, value: string][]
  readsInput: boolean
  paginate: boolean
  showHeaders: boolean
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/** `me`, `/me`, `api/me` and `/api/me?x=1` are the same; full URLs are refused. */
export function apiPath(word: string): string {
  const path = word.replace(/^\/+/, '')
  if (
    word.startsWith('//') ||
    /^[a-z][a-z0-9+.-]*:/i.test(path) ||
    path.split('/').includes('..')
  ) {
    throw usage(`'${word}' is not a path such as /api/me`)
  }
  return path.startsWith('api/') ? `/${path}` : `/api/${path}`
}

function parseApi({ args, flags }: Invocation): ApiOptions {
  const fields = flagList(flags, 'field').map((text): [string, string] => {
    const at = text.indexOf('=')
    if (at < 1) throw usage(`-f takes key=value, got '${text}'`)
    return [text.slice(0, at), text.slice(at + 1)]
  })
  const input = flagText(flags, 'input')
  if (input !== undefined && input !== '-') throw usage('--input takes - (stdin) only')
  const hasBody = fields.length > 0 || input !== undefined
  const method = (flagText(flags, 'method') ?? (hasBody ? 'POST' : 'GET')).toUpperCase()
  if (!METHODS.includes(method)) throw usage(`-X takes ${METHODS.join(', ')}, got '${method}'`)
  if (fields.length > 0 && input !== undefined) throw usage('-f and --input exclude each other')
  const paginate = flagOn(flags, 'paginate')
  if (paginate && method !== 'GET') throw usage('--paginate goes with GET only')
  return {
    path: apiPath(args[0] ?? ''),
    method,
    fields,
    readsInput: input !== undefined,
    paginate,
    showHeaders: flagOn(flags, 'include'),
  }
}

/** true, false, null and whole numbers keep their type, @file is the text of a file, everything else is text. */
export async function typedValue(text: string): Promise<unknown> {
  if (text === 'true' || text === 'false') return text === 'true'
  if (text === 'null') return null
  if (/^-?(0|[1-9]\d{0,14})$/.test(text)) return Number(text)
  if (!text.startsWith('@')) return text
  const path = text.slice(1)
  try {
    const { size } = await stat(path)
    if (size > REST.bodyBytes) throw usage(`${path} is larger than the API takes`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof CliError) throw error
    throw usage(`${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
}

async function bodyOf(options: ApiOptions, context: Context): Promise<RequestOptions> {
  if (options.readsInput) {
    const text = await context.io.stdin.read(CLIENT.stdinBytes)
    try {
      return { body: JSON.parse(text) }
    } catch {
      throw usage('--input is not JSON')
    }
  }
  if (options.fields.length === 0) return {}
  if (options.method === 'GET' || options.method === 'HEAD') {
    return { query: Object.fromEntries(options.fields) }
  }
  const body: [string, unknown][] = []
  for (const [key, value] of options.fields) body.push([key, await typedValue(value)])
  return { body: Object.fromEntries(body) }
}

/** All pages of an array, joined. */
async function joinPages(api: Api, first: Answer): Promise<Answer> {
  const rows: unknown[] = []
  let answer = first
  for (let page = 1; ; page++) {
    const parsed: unknown = JSON.parse(answer.text)
    if (!Array.isArray(parsed)) return first
    rows.push(...parsed)
    const next = nextPage(answer.headers.get('link'))
    if (next === null) return { ...first, text: toJson(rows, 2) }
    if (page >= CLIENT.pages) throw new CliError(EXIT.error, `there are more than ${page} pages`)
    answer = await api.ask('GET', next)
    if (answer.status >= 400) return answer
  }
}

/** JSON is escaped so that a terminal obeys nothing in it; other text is cleaned for terminals. */
function presentBody(text: string, isTerminal: boolean): string {
  try {
    return toJson(JSON.parse(text), 2)
  } catch {
    return isTerminal ? text.split('\n').map(cleanText).join('\n') : text
  }
}

async function performApi(options: ApiOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const isKeyed = options.method === 'POST' || options.method === 'PATCH'
  const request = {
    ...(await bodyOf(options, context)),
    ...(isKeyed ? { idempotencyKey: randomUUID() } : {}),
  }
  let answer = await api.ask(options.method, options.path, request)
  if (options.paginate && answer.status === 200) answer = await joinPages(api, answer)
  if (options.showHeaders) {
    await screen.print(`HTTP ${answer.status}`)
    for (const [name, value] of answer.headers) await screen.print(cleanText(`${name}: ${value}`))
    await screen.print('')
  }
  if (answer.text !== '') await screen.print(presentBody(answer.text, io.stdout.isTTY))
  if (answer.status < 400) return EXIT.done
  throw api.explain(options.method, options.path, answer)
}

export const api = compose(parseApi, performApi)
