// Reads a Procfile (`web: node server.js`, one process per line), which other platforms use, and adds its lines to the
// written file. The line `release` is no service: it runs once per deployment. Keys of the file win.
import { SERVICE_FILE } from '../limits/limits.ts'
import { shown } from './problem.ts'
import type { WrittenFile } from './schema.ts'
import { NAME } from './values.ts'

interface Procfile {
  /** Commands by name of the service, in the order of the lines. */
  commands: Map<string, string>
  release: string | null
  /** Sentences without their end. */
  problems: string[]
}

const LINE = /^([A-Za-z0-9_-]+):\s*(\S.*)$/

export function readProcfile(text: string): Procfile {
  const commands = new Map<string, string>()
  const problems: string[] = []
  let release: string | null = null
  for (const [index, line] of text
    .replace(/^\ufeff/, '')
    .split(/\r?\n/)
    .entries()) {
    const written = line.trim()
    if (written === '' || written.startsWith('#')) continue
    const [, label = '', command = ''] = LINE.exec(written) ?? []
    const name = label.toLowerCase().replaceAll('_', '-')
    const problem = (what: string): void => void problems.push(`line ${index + 1} ${what}`)
    if (command === '') problem("is not of the form 'name: command'")
    else if (!NAME.test(name)) problem(`has the name '${shown(label)}'; begin it with a letter`)
    else if (commands.has(name)) problem(`repeats the name '${name}'`)
    else if (name !== 'release') commands.set(name, command)
    else if (release !== null) problem("repeats the name 'release'")
    else release = command
  }
  if (commands.size === 0 && problems.length === 0) problems.push('has no process')
  return { commands, release, problems }
}

/** `web` gets a port of its own unless the file says where it listens. */
export function mergeProcfile(
  file: WrittenFile,
  { commands }: Procfile,
): { file: WrittenFile; problem: string | undefined } {
  const { manual } = file
  if (!manual) return { file, problem: undefined }
  const explicit = manual.services ?? {}
  const services: NonNullable<typeof manual.services> = Object.create(null)
  for (const [name, run] of commands) {
    const own = Object.hasOwn(explicit, name) ? explicit[name] : undefined
    if (own?.root !== undefined) {
      const problem = `has a command for ${name}, which has 'root' in manual.services; remove one`
      return { file, problem }
    }
    const isPlaced = own?.port !== undefined || own?.socket !== undefined
    services[name] = { run, ...(name === 'web' && !isPlaced ? { port: 'auto' } : {}), ...own }
  }
  for (const [name, own] of Object.entries(explicit)) services[name] ??= own
  const count = Object.keys(services).length
  const problem =
    count > SERVICE_FILE.services
      ? `makes ${count} services; at most ${SERVICE_FILE.services} are possible`
      : undefined
  return { file: { ...file, manual: { ...manual, services } }, problem }
}
