// berth open: prints an environment's address, or that of its dashboard page, and opens it in a browser if the user can
// see one.

import { findTarget } from '../../client/resolve.ts'
import { type Context, compose, flagOn, type Invocation } from '../../context.ts'
import { browserCommand } from '../../terminal/browser.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { flagsOf } from '../deployments/deploy.ts'

async function performOpen(options: { dashboard: boolean }, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  const { environment } = target
  const url = options.dashboard ? `${api.baseUrl}/environments/${environment.id}` : environment.url
  if (url === null) {
    throw new CliError(
      EXIT.notFound,
      `${environment.identifier} has no address yet`,
      `berth deploy ${flagsOf(target)} --wait`,
    )
  }
  const words = screen.human && !screen.json ? browserCommand(io, url) : undefined
  if (words) io.launch(words)
  if (screen.json) await screen.printJson({ url })
  else await screen.print(cleanText(url))
  return EXIT.done
}

export const openPage = compose(
  ({ flags }: Invocation) => ({ dashboard: flagOn(flags, 'dashboard') }),
  performOpen,
)
