// berth config: checks .service.yml without a server and a login, with the same messages as a deployment; prints the
// schema for editors.
import { access, lstat, readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import {
  FILE_NAME,
  formatProblems,
  jsonSchema,
  MISTAKEN_NAMES,
  type Problem,
  readServiceFile,
} from '@berth/shared/service-file'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'

export interface ValidateOptions {
  /** `-` is stdin. */
  file: string
  recipe: 'docker' | 'manual' | undefined
}

export function parseValidate({ args, flags }: Invocation): ValidateOptions {
  const recipe = flagText(flags, 'recipe')
  return {
    file: args[0] ?? FILE_NAME,
    recipe: recipe === 'docker' || recipe === 'manual' ? recipe : undefined,
  }
}

async function readSource(file: string, { io }: Context): Promise<Uint8Array> {
  if (file === '-') return new TextEncoder().encode(await io.stdin.read(CLIENT.stdinBytes))
  const path = resolve(io.cwd, file)
  try {
    await refuseLink(file, path)
    const { size } = await stat(path)
    if (size > CLIENT.stdinBytes) throw usage(`${file} is far too large to be a ${FILE_NAME}`)
    return await readFile(path)
  } catch (error) {
    if (error instanceof CliError) throw error
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') throw usage(`${file} cannot be read (${code})`)
    throw usage(`${file} was not found`, await findMistaken(path))
  }
}

/** A deployment reads no links; a file with another name is only a draft, so there a link is fine. */
async function refuseLink(file: string, path: string): Promise<void> {
  if (basename(path) !== FILE_NAME || !(await lstat(path)).isSymbolicLink()) return
  throw usage(`${file} is a symbolic link; it must be a regular file`)
}

/** Names that users give the file by mistake; otherwise, how to create the file. */
async function findMistaken(path: string): Promise<string | undefined> {
  for (const name of MISTAKEN_NAMES) {
    const isThere = await access(join(dirname(path), name)).then(
      () => true,
      () => false,
    )
    if (isThere) return `found ${name}; rename it to ${FILE_NAME}`
  }
  return basename(path) === FILE_NAME ? 'write one with: berth config init' : undefined
}

const escapeData = (text: string) => cleanText(text).replaceAll('%', '%25')
const escapeProperty = (text: string) =>
  escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C')

/** GitHub Actions shows these at the line of the file. */
export function annotation(problem: Problem): string {
  const { severity, file, line, column, message } = problem
  const place = `file=${escapeProperty(file)},line=${line},col=${column}`
  return `::${severity} ${place}::${escapeData(message)}`
}

async function printText(context: Context, name: string, source: string, problems: Problem[]) {
  const { screen, io } = context
  if (problems.length === 0) return screen.print(`✓ ${cleanText(name)} is valid`)
  const text = formatProblems(source, problems, { excerpts: screen.human ? 'all' : 'first' })
  for (const line of text.split('\n')) await screen.print(cleanText(line))
  if (io.env.GITHUB_ACTIONS !== 'true') return
  for (const problem of problems) await screen.print(annotation(problem))
}

/** Reads the Procfile too, if the file names one: next to the file, or in this folder. */
async function readBeside(
  source: Uint8Array | string,
  name: string,
  path: string,
  { io }: Context,
) {
  const read = readServiceFile(source, name)
  const procfile = read.file?.manual?.procfile
  if (!procfile) return read
  const folder = path === '-' ? io.cwd : dirname(resolve(io.cwd, path))
  const text = await readFile(join(folder, procfile), 'utf8').catch(() => null)
  return readServiceFile(source, name, { procfile: text })
}

export async function performValidate(
  options: ValidateOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const source = await readSource(options.file, context)
  const name = options.file === '-' ? FILE_NAME : options.file
  const { file, problems } = await readBeside(source, name, options.file, context)
  if (screen.json) await screen.printJson(problems)
  else await printText(context, name, Buffer.from(source).toString('utf8'), problems)
  if (!file) return EXIT.usage
  const { recipe } = options
  if (recipe === undefined || file[recipe]) return EXIT.done
  throw usage(`${name} has no '${recipe}:' section`)
}

export const configValidate = compose(parseValidate, performValidate)

export async function performSchema(_: unknown, context: Context): Promise<ExitCode> {
  await context.screen.printJson(jsonSchema())
  return EXIT.done
}

export const configSchema = compose(() => undefined, performSchema)
