// The settings file, server.toml: finds it, reads it, and knows the line of each key. Its contents never appear in a
// message, because a line may hold a password.
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { parse, TomlError } from 'smol-toml'
import { SETTINGS_FILE } from '../limits/installation.ts'

export interface FileEntry {
  /** A number, a boolean, a text, a list, or something that no setting takes. */
  value: unknown
  /** Undefined if the key was written in a way that only the parser understands. */
  line: number | undefined
}

export interface SettingsFile {
  path: string
  /** By full key: `port`, `mail.from`. */
  entries: ReadonlyMap<string, FileEntry>
  /** Every account of the machine may read it. */
  isOpen: boolean
}

/**
 * `BERTH_CONFIG_FILE` names the file; empty: none. Otherwise the standard place counts, except in development: a test or
 * `npm start` must not find the settings of an installation on the same machine.
 */
export function findFile(env: NodeJS.ProcessEnv): { path: string; isNamed: boolean } | undefined {
  const named = env.BERTH_CONFIG_FILE
  if (named !== undefined) return named === '' ? undefined : { path: named, isNamed: true }
  return env.BERTH_DEV === '1' ? undefined : { path: SETTINGS_FILE.path, isNamed: false }
}

/** Undefined if there is none. Throws a sentence that names the file and says what to do. */
export function readFile(env: NodeJS.ProcessEnv): SettingsFile | undefined {
  const found = findFile(env)
  if (!found) return undefined
  const { path, isNamed } = found
  const content = readBounded(path, isNamed)
  if (content === undefined) return undefined
  return { path, entries: parseFile(path, content.text), isOpen: (content.mode & 0o004) !== 0 }
}

function readBounded(path: string, isNamed: boolean): { text: string; mode: number } | undefined {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && !isNamed) return undefined
    if (code === 'ENOENT') {
      throw new Error(`${path} does not exist. Create it, or correct BERTH_CONFIG_FILE.`)
    }
    throw new Error(
      `${path} cannot be read (${code}). Make it readable by the account that runs the control plane: chown and chmod 0640.`,
    )
  }
  try {
    const { mode, size } = fstatSync(fd)
    if (size > SETTINGS_FILE.bytes) {
      throw new Error(
        `${path} is too large: a settings file has at most ${SETTINGS_FILE.bytes} bytes.`,
      )
    }
    return { text: readFileSync(fd, 'utf8'), mode }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw code === undefined ? error : new Error(`${path} cannot be read (${code}).`)
  } finally {
    closeSync(fd)
  }
}

function parseFile(path: string, text: string): Map<string, FileEntry> {
  let root: Record<string, unknown>
  try {
    root = parse(text)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const [first = ''] = error.message.replace('Invalid TOML document: ', '').split('\n')
    throw new Error(
      `${path}:${error.line}:${error.column}: ${first}. Write one \`key = value\` in a line, texts in double quotes.`,
    )
  }
  const lines = locateKeys(text)
  const entries = new Map<string, FileEntry>()
  const visit = (table: Record<string, unknown>, prefix: string): void => {
    for (const [name, value] of Object.entries(table)) {
      const key = prefix + name
      if (isTable(value)) visit(value, `${key}.`)
      else entries.set(key, { value, line: lines.get(key) })
    }
  }
  visit(root, '')
  return entries
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)

/** The parser keeps no lines. Bare keys and sections cover what people write here. */
function locateKeys(text: string): Map<string, number> {
  const lines = new Map<string, number>()
  let section = ''
  for (const [index, line] of text.split('\n').entries()) {
    const header = /^\s*\[\s*([\w.-]+)\s*\]/.exec(line)?.[1]
    if (header !== undefined) section = `${header}.`
    const key = /^\s*([\w.-]+)\s*=/.exec(line)?.[1]
    if (key !== undefined && !lines.has(section + key)) lines.set(section + key, index + 1)
  }
  return lines
}
