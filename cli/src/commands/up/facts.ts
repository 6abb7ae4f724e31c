// What the checkout says by itself, before any server is asked.
import { join } from 'node:path'
import type { Recipe } from '@berth/shared'
import { FILE_NAME, readServiceFile } from '@berth/shared/service-file'
import {
  type Checkout,
  defaultBranch,
  openCheckout,
  type Remote,
  withoutSecrets,
} from '../../client/checkout.ts'
import type { Context } from '../../context.ts'
import { type Detection, detect } from '../../detect/detect.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { readLook, readSmall } from '../config/folder.ts'
import { askText, mayAsk } from '../prompt.ts'
import { type Guess, guessRemote, type Missing } from './guesses.ts'
import type { UpOptions } from './up-options.ts'

export interface Facts {
  checkout: Checkout
  remote: Guess<Remote> | Missing
  /** Without a password. */
  repo: Guess<string> | null
  branch: Guess<string>
  /** Sections of .service.yml; null: there is none. */
  ownRecipes: Recipe[] | null
  detection: Detection | null
}

/** The recipes that a service file has; a file with errors is refused here, not by the first deployment. */
async function readOwn(root: string): Promise<Recipe[] | null> {
  const text = await readSmall(join(root, FILE_NAME))
  if (text === null) return null
  const { file, problems } = readServiceFile(new TextEncoder().encode(text))
  const errors = problems.filter(({ severity }) => severity === 'error')
  if (!file || errors.length > 0) {
    const [first] = errors
    const rest = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
    throw new CliError(
      EXIT.usage,
      cleanText(`${FILE_NAME} is not valid: ${first?.message ?? 'it cannot be read'}${rest}`),
      'berth config validate shows all of it',
    )
  }
  return (['docker', 'manual'] as const).filter((one) => file[one])
}

async function guessBranch(
  checkout: Checkout,
  remote: Guess<Remote> | Missing,
  named: string | undefined,
): Promise<Guess<string>> {
  if (named !== undefined) return { value: named, why: 'named by --branch' }
  const found = 'value' in remote ? await defaultBranch(checkout, remote.value.name) : null
  if (found !== null) return { value: found, why: 'the default branch' }
  if (checkout.branch !== null)
    return { value: checkout.branch, why: 'the branch checked out here' }
  return { value: 'main', why: 'no branch is checked out here' }
}

async function chooseRemote(
  checkout: Checkout,
  options: UpOptions,
  context: Context,
): Promise<Guess<Remote> | Missing> {
  const guess = guessRemote(checkout.remotes, options.remote)
  const canAsk = 'flag' in guess && checkout.remotes.length > 1 && options.repo === undefined
  if (!canAsk || !mayAsk(context)) return guess
  await context.screen.note(cleanText(guess.why))
  return guessRemote(checkout.remotes, await askText(context, 'Remote'))
}

export async function gatherFacts(options: UpOptions, context: Context): Promise<Facts> {
  const checkout = await openCheckout(context.io)
  const remote = await chooseRemote(checkout, options, context)
  const repo =
    options.repo !== undefined
      ? { value: options.repo, why: 'named by --repo' }
      : 'value' in remote
        ? { value: withoutSecrets(remote.value.url), why: remote.why }
        : null
  const ownRecipes = await readOwn(checkout.root)
  return {
    checkout,
    remote,
    repo,
    branch: await guessBranch(checkout, remote, options.branch),
    ownRecipes,
    detection: ownRecipes === null ? detect(await readLook(checkout.root)) : null,
  }
}
