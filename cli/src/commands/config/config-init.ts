// berth config init: writes a .service.yml that fits the folder, and says what it guessed; or converts a compose file and
// says what it could not convert. Needs no server and no login; a known server only provides the address of the schema.
// An existing file is changed only with --force.
import { lstat, realpath } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import type { Recipe } from '@berth/shared'
import { FILE_NAME, MISTAKEN_NAMES } from '@berth/shared/service-file'
import { credentialsPath, readCredentials } from '../../client/credentials.ts'
import { findBaseUrl } from '../../client/login.ts'
import { findRoot } from '../../client/repository.ts'
import { ComposeError, convertCompose } from '../../compose/convert.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import type { Draft } from '../../detect/app.ts'
import { chooseDraft, composeDraft, detect } from '../../detect/detect.ts'
import { COMPOSE_NAMES } from '../../detect/look.ts'
import { type CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { readLook, readSmall, writeWhole } from './folder.ts'

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

/** The server in use; finding it needs no login. */
async function serverInUse({ globals, io }: Context): Promise<string | undefined> {
  const stored = await readCredentials(credentialsPath(io.env)).catch(() => ({}))
  return findBaseUrl(globals, io, stored)
}

export function renderFile(draft: Pick<Draft, 'lines'>, baseUrl: string | undefined): string {
  const schema = `# yaml-language-server: $schema=${baseUrl}/schemas/service.v1.json`
  const head = [
    ...(baseUrl === undefined ? [] : [schema]),
    '# How Berth brings up an environment of this repository. Check it with: berth config validate',
    '# No secrets here: they are variables of the environment (berth vars set).',
    'version: 1',
  ]
  return `${[...head, ...draft.lines].join('\n')}\n`
}

const existing = (): CliError =>
  usage(
    `${FILE_NAME} is there already; nothing was written`,
    'berth config validate checks it; --force replaces it',
  )

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

/** The one in the folder that compose itself would take. */
async function findCompose(folder: string): Promise<string> {
  for (const name of COMPOSE_NAMES) if ((await readSmall(join(folder, name))) !== null) return name
  throw usage('no compose file here; nothing was written', '--from-compose FILE names one')
}

async function readConversion(context: Context, asked: string | true): Promise<Draft> {
  const { cwd } = context.io
  const file = asked === true ? await findCompose(cwd) : asked
  const text = await readSmall(resolve(cwd, file))
  if (text === null) throw usage(`${file} is not a file that can be read; nothing was written`)
  const folder = relative(cwd, dirname(resolve(cwd, file)))
    .split(sep)
    .join('/')
  if (folder.startsWith('..')) throw usage(`${file} is outside of this folder; nothing was written`)
  try {
    return composeDraft(file, convertCompose(text, folder))
  } catch (error) {
    if (!(error instanceof ComposeError)) throw error
    throw usage(cleanText(`${file} cannot be converted: ${error.message}`), 'nothing was written')
  }
}

/** What the user has to set, and what did not get into the files. */
async function reportDraft({ screen }: Context, draft: Draft): Promise<void> {
  const note = (text: string): Promise<void> => screen.note(cleanText(text))
  if (draft.variables.length > 0) {
    await note('Set these variables before the first deployment; no value is in the file:')
    for (const { key, services, reason } of draft.variables) {
      await note(`  ${key} (${services.join(', ')}): ${reason}`)
    }
    const pairs = draft.variables.map(({ key }) => `${key}=…`).join(' ')
    await note(`  berth vars set -p PROJECT -e ENV ${pairs}`)
  }
  if (draft.notConverted.length === 0) return
  await note('Not converted, or changed:')
  for (const { where, reason } of draft.notConverted) await note(`  ${where}: ${reason}`)
}

async function reportNext({ screen }: Context, { recipe }: Draft, paths: string[]): Promise<void> {
  const names = paths.join(' ')
  await screen.note('Next: read it, then')
  await screen.note('  berth config validate')
  await screen.note(`  git add ${names} && git commit -m "Add ${FILE_NAME}" && git push`)
  await screen.note('  berth deploy -p PROJECT -e ENV --wait')
  await screen.note(`It is read by environments with the ${recipe} recipe.`)
}

async function draftOf(options: InitOptions, context: Context): Promise<Draft> {
  if (options.fromCompose !== undefined) return readConversion(context, options.fromCompose)
  const detection = detect(await readLook(context.io.cwd))
  const choice = chooseDraft(detection, options.recipe, undefined)
  if ('missing' in choice) throw usage(`${choice.missing} Nothing was written`)
  return { ...choice.draft, reasons: [...choice.draft.reasons, ...detection.also] }
}

async function performInit(options: InitOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  if (!options.force) await refuseExisting(io.cwd)
  const draft = await draftOf(options, context)
  const baseUrl = await serverInUse(context)
  const text = renderFile(draft, baseUrl)
  if (!(await writeWhole(join(io.cwd, FILE_NAME), text, options.force))) throw existing()
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} Wrote ${FILE_NAME} (${draft.recipe} recipe)`)
  const written = [FILE_NAME]
  for (const file of draft.files) {
    if (!(await writeWhole(join(io.cwd, file.path), file.text, false))) continue
    written.push(file.path)
    await screen.note(`${mark} Wrote ${file.path}`)
  }
  for (const reason of draft.reasons) await screen.note(`  ${cleanText(reason)}`)
  await reportDraft(context, draft)
  if (baseUrl === undefined) {
    await screen.note('  No server is known: --url URL names the schema for editors in it.')
  }
  const root = await findRoot(io.cwd)
  if (root !== undefined && root !== (await realpath(io.cwd))) {
    await screen.warn(`Berth reads it in the root of the repository, which is ${cleanText(root)}`)
  }
  await reportNext(context, draft, written)
  const { recipe, reasons, variables, notConverted } = draft
  const shown = { file: FILE_NAME, files: written, recipe, reasons, variables }
  if (screen.json) await screen.printJson({ ...shown, not_converted: notConverted })
  else if (!screen.human) await screen.print(`${FILE_NAME}\t${recipe}`)
  return EXIT.done
}

export const configInit = compose(parseInit, performInit)
