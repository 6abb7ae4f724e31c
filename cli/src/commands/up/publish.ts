// The files of the plan: written, committed and pushed, each only as far as the user agreed.
import { join } from 'node:path'
import { FILE_NAME } from '@berth/shared/service-file'
import { commitPaths, lookAtRemote, pushBranch, uncommitted } from '../../client/checkout.ts'
import type { Context } from '../../context.ts'
import { CliError, EXIT } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { renderFile } from '../config/config-init.ts'
import { writeWhole } from '../config/folder.ts'
import { askYes, mayAsk } from '../prompt.ts'
import type { Plan } from './plan.ts'

interface Published {
  /** Files that were written. */
  files: string[]
  pushed: boolean
}

async function writeFiles(plan: Plan, { screen }: Context): Promise<string[]> {
  const { draft, facts, baseUrl } = plan
  if (!draft) return []
  const text = renderFile(draft, baseUrl ?? undefined)
  const written: string[] = []
  for (const file of [{ path: FILE_NAME, text }, ...draft.files]) {
    if (!(await writeWhole(join(facts.checkout.root, file.path), file.text, false))) continue
    written.push(file.path)
    await screen.note(`${screen.err.paint('green', '✓')} Wrote ${file.path}`)
  }
  return written
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

export async function publish(plan: Plan, context: Context): Promise<Published> {
  const { screen, globals } = context
  const files = await writeFiles(plan, context)
  const { checkout, remote } = plan.facts
  if (!plan.pushes || !('value' in remote)) return { files, pushed: false }
  const commits = plan.draft
    ? [FILE_NAME, ...files.filter((one) => one !== FILE_NAME)]
    : plan.commits
  const ahead = plan.pushed?.ahead ?? 0
  const more = ahead > 0 ? `, with ${plural(ahead, 'earlier commit')},` : ''
  const where = `${remote.value.name}/${plan.branch}`
  const question =
    commits.length > 0
      ? `Commit ${commits.join(', ')} and push${more} to ${where}?`
      : `Push ${plural(ahead, 'commit')} to ${where}?`
  if (!globals.yes && !(await askYes(context, question))) {
    const kept = files.length > 0 ? `; ${files.join(', ')} stay in the folder` : ''
    throw new CliError(
      EXIT.refused,
      `nothing was committed or pushed${kept}`,
      'commit and push them yourself, then run berth up again',
    )
  }
  if (commits.length > 0)
    await commitPaths(checkout, commits, `Add ${commits.join(', ')} for Berth`)
  await pushBranch(checkout, remote.value.name, plan.branch, mayAsk(context))
  await screen.note(`${screen.err.paint('green', '✓')} Pushed to ${cleanText(where)}`)
  return { files, pushed: true }
}

/** What is here and not in the deployment. */
export async function sayUnpushed(
  plan: Plan,
  published: Published,
  context: Context,
): Promise<void> {
  const { checkout, remote } = plan.facts
  if (checkout.branch !== plan.branch) {
    const other = checkout.branch ?? 'no branch'
    await context.screen.note(
      cleanText(`You are on ${other}; ${plan.branch} is deployed. --branch deploys another one.`),
    )
    return
  }
  const changed = await uncommitted(checkout, ['.']).catch(() => [])
  if (changed.length > 0) {
    await context.screen.warn(
      `${plural(changed.length, 'file')} with changes that are not committed are not deployed`,
    )
  }
  if (!plan.pushed || published.pushed || !('value' in remote)) return
  const { ahead } = await lookAtRemote(checkout, remote.value.name, plan.branch)
  if (ahead === null || ahead === 0) return
  await context.screen.warn(
    `${plural(ahead, 'local commit')} not pushed to ${remote.value.name}; the deployment does not have them: git push`,
  )
}
