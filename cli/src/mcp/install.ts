// berth mcp install: the entry for a program's configuration, printed or merged into its file in this repository. It
// contains no token: the server reads the credentials file. Other entries and keys of the file are kept, the old file
// is kept beside it, and a file that is not plain JSON is not changed.
import { randomUUID } from 'node:crypto'
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { credentialsPath, readCredentials } from '../client/credentials.ts'
import { findBaseUrl } from '../client/login.ts'
import { findRoot } from '../client/repository.ts'
import {
  type Context,
  compose,
  flagOn,
  flagText,
  type Globals,
  type Invocation,
} from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../terminal/exit.ts'
import { cleanText, toJson } from '../terminal/text.ts'

/** The path and key that each program uses in a repository. */
const CLIENTS = {
  'claude-code': { file: '.mcp.json', key: 'mcpServers' },
  cursor: { file: join('.cursor', 'mcp.json'), key: 'mcpServers' },
  vscode: { file: join('.vscode', 'mcp.json'), key: 'servers' },
} as const
type ClientName = keyof typeof CLIENTS

const NAME = 'berth'

interface Entry {
  type: 'stdio'
  command: string
  args: string[]
}

interface InstallOptions {
  client: ClientName
  allowWrite: boolean
  write: boolean
}

/** `berth mcp` with the flags given here. */
function entryOf(globals: Globals, allowWrite: boolean, url: string | undefined): Entry {
  const named = (flag: string, value: string | undefined) =>
    value === undefined ? [] : [flag, value]
  return {
    type: 'stdio',
    command: 'berth',
    args: [
      'mcp',
      ...(allowWrite ? ['--allow-write'] : []),
      ...named('--project', globals.project),
      ...named('--env', globals.env),
      ...named('--org', globals.org),
      ...named('--url', url),
      ...named('--cacert', globals.cacert),
    ],
  }
}

function parseInstall({ flags, globals }: Invocation): InstallOptions {
  const client = flagText(flags, 'client') as ClientName
  if (globals.env !== undefined && globals.project === undefined && !/^id:/.test(globals.env)) {
    throw usage('-e needs the project it belongs to', 'add -p PROJECT')
  }
  return { client, allowWrite: flagOn(flags, 'allowWrite'), write: flagOn(flags, 'write') }
}

type Json = Record<string, unknown>
const isObject = (value: unknown): value is Json =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

/** The file's object with the entry added; undefined: the file cannot take an entry. */
export function merge(text: string | undefined, key: string, entry: Entry): Json | undefined {
  let before: unknown
  try {
    before = text === undefined || text.trim() === '' ? {} : JSON.parse(text)
  } catch {
    return undefined
  }
  if (!isObject(before)) return undefined
  const servers = before[key] ?? {}
  return isObject(servers) ? { ...before, [key]: { ...servers, [NAME]: entry } } : undefined
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    const text = await readFile(file, 'utf8')
    if (text.length > CLIENT.stdinBytes) throw usage(`${file} is larger than 1 MiB`)
    return text
  } catch (error) {
    if (error instanceof CliError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new CliError(EXIT.error, `cannot read ${file} (${code})`)
  }
}

/** Atomic; undefined: there was no old file to keep. */
async function replaceFile(file: string, text: string, isThere: boolean) {
  const backup = `${file}.bak`
  const temporary = `${file}.${randomUUID()}.tmp`
  try {
    await mkdir(dirname(file), { recursive: true })
    if (isThere) await copyFile(file, backup)
    await writeFile(temporary, text, { flag: 'wx' })
    await rename(temporary, file)
    return isThere ? backup : undefined
  } catch (error) {
    await rm(temporary, { force: true })
    throw new CliError(
      EXIT.error,
      `cannot write ${file} (${(error as NodeJS.ErrnoException).code})`,
    )
  }
}

async function writeEntry(file: string, key: string, entry: Entry, context: Context) {
  const { screen } = context
  const before = await readIfThere(file)
  const merged = merge(before, key, entry)
  if (!merged) {
    throw usage(
      `${file} is not plain JSON with an object in it, so it was left as it is`,
      'put the entry there by hand: berth mcp install without --write prints it',
    )
  }
  const text = `${JSON.stringify(merged, null, 2)}\n`
  if (text === before) return screen.note(cleanText(`${file} has this entry already`))
  const backup = await replaceFile(file, text, before !== undefined)
  const kept = backup === undefined ? '' : `; the file before is ${backup}`
  await screen.note(cleanText(`✓ ${file} has the entry ${NAME}${kept}`))
}

async function performInstall(options: InstallOptions, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const { file, key } = CLIENTS[options.client]
  const path = join((await findRoot(io.cwd)) ?? io.cwd, file)
  const stored = await readCredentials(credentialsPath(io.env))
  // the program that starts it may run in another folder, and a later `context use` must not move it
  const url = await findBaseUrl(context.globals, io, stored)
  const entry = entryOf(context.globals, options.allowWrite, url)
  if (options.write) await writeEntry(path, key, entry, context)
  else {
    await screen.note(cleanText(`Put this into ${path}, or run again with --write:`))
    await screen.print(toJson({ [key]: { [NAME]: entry } }, 2))
  }
  if (url !== undefined) {
    const line = `curl -fsSL ${url}/install-cli.sh | sh`
    await screen.note(cleanText(`Colleagues who use this entry need berth: ${line}`))
  }
  return EXIT.done
}

export const install = compose(parseInstall, performInstall)
