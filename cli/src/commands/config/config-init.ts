// berth config init: writes a .service.yml that fits the folder, and says what it guessed; or converts a compose file and
// says what it could not convert. Needs no server and no login; a known server only provides the address of the schema.
// An existing file is changed only with --force.
import { randomBytes } from 'node:crypto'
import {
  lstat,
  readdir,
  readFile,
  realpath,
  rename,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import type { Recipe } from '@berth/shared'
import { FILE_NAME, MISTAKEN_NAMES } from '@berth/shared/service-file'
import { credentialsPath, readCredentials } from '../../client/credentials.ts'
import { chooseBaseUrl } from '../../client/login.ts'
import { findRoot } from '../../client/repository.ts'
import { ComposeError, type Conversion, convertCompose } from '../../compose/convert.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import {
  COMPOSE_NAMES,
  type Guess,
  guessServiceFile,
  type Look,
  STATIC_FOLDERS,
} from './repository-look.ts'

interface InitOptions {
  recipe: Recipe | undefined
  force: boolean
  /** A file, or true for the one in the folder. */
  fromCompose: string | true | undefined
}

function parseInit({ flags }: Invocation): InitOptions {
  const recipe = flagText(flags, 'recipe')
  const isOn = flagOn(flags, 'fromCompose')
  const fromCompose = isOn ? true : flagText(flags, 'fromCompose')
  if (fromCompose !== undefined && recipe === 'manual') {
    throw usage('a compose file becomes the docker recipe', 'remove --recipe or --from-compose')
  }
  return {
    recipe: recipe === 'docker' || recipe === 'manual' ? recipe : undefined,
    force: flagOn(flags, 'force'),
    fromCompose,
  }
}

/** A regular file of a reasonable size; null: none. */
async function readSmall(path: string): Promise<string | null> {
  try {
    const found = await stat(path)
    if (!found.isFile() || found.size > CLIENT.stdinBytes) return null
    return await readFile(path, 'utf8')
  } catch {
    return null
  }
}

const isFile = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isFile(),
    () => false,
  )

async function lookAt(folder: string): Promise<Look> {
  const names = new Set(await readdir(folder))
  let staticFolder: string | null = null
  for (const name of STATIC_FOLDERS) {
    if (names.has(name) && (await isFile(join(folder, name, 'index.html')))) {
      staticFolder = name
      break
    }
  }
  return {
    dockerfile: await readSmall(join(folder, 'Dockerfile')),
    packageJson: await readSmall(join(folder, 'package.json')),
    hasComposer: names.has('composer.json'),
    hasArtisan: names.has('artisan'),
    names,
    staticFolder,
  }
}

/** The server in use; finding it needs no login. */
async function findBaseUrl({ globals, io }: Context): Promise<string | undefined> {
  const stored = await readCredentials(credentialsPath(io.env)).catch(() => ({}))
  return chooseBaseUrl(globals, io.env, stored)
}

export function renderFile(guess: Guess, baseUrl: string | undefined): string {
  const schema = `# yaml-language-server: $schema=${baseUrl}/schemas/service.v1.json`
  const head = [
    ...(baseUrl === undefined ? [] : [schema]),
    '# How Berth brings up an environment of this repository. Check it with: berth config validate',
    '# No secrets here: they are variables of the environment (berth vars set).',
    'version: 1',
  ]
  return `${[...head, ...guess.lines].join('\n')}\n`
}

async function refuseExisting(folder: string): Promise<void> {
  const isThere = (name: string) =>
    lstat(join(folder, name)).then(
      () => true,
      () => false,
    )
  if (await isThere(FILE_NAME)) throw existing()
  for (const name of MISTAKEN_NAMES) {
    if (!(await isThere(name))) continue
    throw usage(`found ${name}; nothing was written`, `rename it to ${FILE_NAME}, or add --force`)
  }
}

const existing = (): CliError =>
  usage(
    `${FILE_NAME} is there already; nothing was written`,
    'berth config validate checks it; --force replaces it',
  )

/** Atomic; --force replaces a link itself, not its target. */
async function writeWhole(path: string, text: string, force: boolean): Promise<void> {
  const part = `${path}.${randomBytes(6).toString('hex')}`
  try {
    if (!force) return await writeFile(path, text, { flag: 'wx' })
    await writeFile(part, text, { flag: 'wx' })
    await rename(part, path)
  } catch (error) {
    if (force) await unlink(part).catch(() => {})
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw existing()
    throw new CliError(EXIT.error, `${FILE_NAME} cannot be written (${code})`, undefined, error)
  }
}

/** The one in the folder that compose itself would take. */
async function findCompose(folder: string): Promise<string> {
  for (const name of COMPOSE_NAMES) if (await isFile(join(folder, name))) return name
  throw usage('no compose file here; nothing was written', '--from-compose FILE names one')
}

async function readConversion(context: Context, asked: string | true): Promise<Converted> {
  const { cwd } = context.io
  const file = asked === true ? await findCompose(cwd) : asked
  const text = await readSmall(resolve(cwd, file))
  if (text === null) throw usage(`${file} is not a file that can be read; nothing was written`)
  const folder = relative(cwd, dirname(resolve(cwd, file)))
    .split(sep)
    .join('/')
  if (folder.startsWith('..')) throw usage(`${file} is outside of this folder; nothing was written`)
  try {
    return { file, ...convertCompose(text, folder) }
  } catch (error) {
    if (!(error instanceof ComposeError)) throw error
    throw usage(cleanText(`${file} cannot be converted: ${error.message}`), 'nothing was written')
  }
}

type Converted = Conversion & { file: string }

async function reportConversion({ screen }: Context, made: Converted): Promise<void> {
  const note = (text: string): Promise<void> => screen.note(cleanText(text))
  const { variables, notes } = made
  if (variables.length > 0) {
    await note('Set these variables before the first deployment; no value is in the file:')
    for (const { key, services, reason } of variables) {
      await note(`  ${key} (${services.join(', ')}): ${reason}`)
    }
    const pairs = variables.map(({ key }) => `${key}=…`).join(' ')
    await note(`  berth vars set -p PROJECT -e ENV ${pairs}`)
  }
  if (notes.length === 0) return
  await note('Not converted, or changed:')
  for (const { where, reason } of notes) await note(`  ${where}: ${reason}`)
}

async function reportNext({ screen }: Context, { recipe }: Guess): Promise<void> {
  await screen.note('Next: read it, then')
  await screen.note('  berth config validate')
  await screen.note(`  git add ${FILE_NAME} && git commit -m "Add ${FILE_NAME}" && git push`)
  await screen.note('  berth deploy -p PROJECT -e ENV --wait')
  await screen.note(`It is read by environments with the ${recipe} recipe.`)
}

const guessFrom = ({ file, services, defaultService, lines }: Converted): Guess => ({
  recipe: 'docker',
  lines,
  reasons: [
    `Converted ${cleanText(file)}: ${services.join(', ')}.`,
    defaultService === null
      ? 'No service has an address.'
      : `${defaultService} serves the environment's own address.`,
  ],
})

async function performInit(options: InitOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  if (!options.force) await refuseExisting(io.cwd)
  const { fromCompose } = options
  const made = fromCompose === undefined ? undefined : await readConversion(context, fromCompose)
  const guess = made ? guessFrom(made) : guessServiceFile(await lookAt(io.cwd), options.recipe)
  const baseUrl = await findBaseUrl(context)
  await writeWhole(join(io.cwd, FILE_NAME), renderFile(guess, baseUrl), options.force)
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} Wrote ${FILE_NAME} (${guess.recipe} recipe)`)
  for (const reason of guess.reasons) await screen.note(`  ${reason}`)
  if (made) await reportConversion(context, made)
  if (baseUrl === undefined) {
    await screen.note('  No server is known: --url URL names the schema for editors in it.')
  }
  const root = await findRoot(io.cwd)
  if (root !== undefined && root !== (await realpath(io.cwd))) {
    await screen.warn(`Berth reads it in the root of the repository, which is ${cleanText(root)}`)
  }
  await reportNext(context, guess)
  const { recipe, reasons } = guess
  const converted = made && { variables: made.variables, not_converted: made.notes }
  if (screen.json) await screen.printJson({ file: FILE_NAME, recipe, reasons, ...converted })
  else if (!screen.human) await screen.print(`${FILE_NAME}\t${recipe}`)
  return EXIT.done
}

export const configInit = compose(parseInit, performInit)
