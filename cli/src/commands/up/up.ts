// berth up: from a git checkout to an address. Finds what is there, guesses the rest and shows each guess, makes what is
// missing, deploys and follows. Repeatable: what exists is used. Nothing is committed or pushed without a yes; without
// a terminal nothing is asked, and everything that is missing is one error.
import { type Context, compose } from '../../context.ts'
import { browserCommand } from '../../terminal/browser.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { followDeployment } from './deploying.ts'
import { gatherFacts } from './facts.ts'
import { type Plan, planUp, showPlan } from './plan.ts'
import { ensureEnvironment, ensureProject, ensureReadable } from './platform.ts'
import { publish, sayUnpushed } from './publish.ts'
import { signIn } from './sign-in.ts'
import { parseUp, type UpOptions } from './up-options.ts'

async function printPlan({ screen }: Context, plan: Plan): Promise<ExitCode> {
  const { rows, makes } = plan
  if (screen.json) await screen.printJson({ dry_run: true, guesses: rows, makes })
  else if (!screen.human) {
    for (const row of rows) await screen.print([row.what, row.value].map(cleanText).join('\t'))
    for (const line of makes) await screen.print(`would\t${cleanText(line)}`)
  }
  await screen.note('Nothing was done: --dry-run.')
  return EXIT.done
}

async function performUp(options: UpOptions, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const facts = await gatherFacts(options, context)
  const session = await signIn(context, options.dryRun)
  const plan = await planUp(options, facts, session, context)
  await showPlan(context, plan)
  if (options.dryRun) return printPlan(context, plan)
  const { api } = session
  if (!api) throw new CliError(EXIT.notLoggedIn, 'not logged in', 'berth login')
  const published = await publish(plan, context)
  const { project, secret } = await ensureProject(plan, session, context)
  await ensureReadable(plan, { project, secret }, session, context)
  const { environment, task, isNew } = await ensureEnvironment(plan, project, session, context)
  await sayUnpushed(plan, published, context)
  const target = { project, environment }
  const { timeoutMs, showLog } = options
  const wait = { timeoutMs, showLog, hasData: true as const }
  const end = await followDeployment(context, api, target, task, wait)
  const url = end.environment.url
  if (screen.json) {
    await screen.printJson({
      control_plane: api.baseUrl,
      project: { id: project.id, name: project.name, domain: project.domain },
      environment: end.rawEnvironment,
      task: end.rawTask,
      url,
      files: published.files,
      pushed: published.pushed,
    })
    return end.code
  }
  if (end.code !== EXIT.done || url === null) return end.code
  await screen.print(cleanText(url))
  // a second tab of the same page helps no one
  const words = options.open && isNew && screen.human ? browserCommand(io, url) : undefined
  if (words) io.launch(words)
  return end.code
}

export const up = compose(parseUp, performUp)
