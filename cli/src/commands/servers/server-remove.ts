// berth server remove: requires the server's name, like every irreversible command.
import { removeAt } from '../../client/api.ts'
import { ApiFailure } from '../../client/problem.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { confirmName } from '../prompt.ts'
import { findServer } from './servers.ts'

interface ServerRemoveOptions {
  name: string
  confirm: string | undefined
}

/** Names of the remaining environments, as the refusal lists them. */
function environmentsIn(details: ApiFailure['details']): string[] {
  const listed = Array.isArray(details.environments) ? details.environments : []
  return listed.flatMap((one: unknown) => {
    const { identifier } = (one ?? {}) as { identifier?: unknown }
    return typeof identifier === 'string' ? [identifier] : []
  })
}

async function performServerRemove(
  options: ServerRemoveOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const server = await findServer(api, options.name, 'change')
  const what = `this cuts the agent of ${server.name} off and forgets the server`
  const confirm = await confirmName(context, options.confirm, server.name, what)
  try {
    await removeAt(api, `/api/servers/${server.id}`, { confirm })
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.code !== 'server_in_use') throw error
    const names = environmentsIn(error.details)
    const hint = names.length > 0 ? `still there: ${names.slice(0, 5).join(', ')}` : error.hint
    throw new CliError(error.exitCode, error.message, hint)
  }
  await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(server.name)} is forgotten`)
  if (screen.json) await screen.printJson({ removed: server.id })
  else if (!screen.human) await screen.print(`${server.id}\t${cleanText(server.name)}`)
  return EXIT.done
}

export const serverRemove = compose(
  ({ args, flags }: Invocation): ServerRemoveOptions => ({
    name: args[0] ?? '',
    confirm: flagText(flags, 'confirm'),
  }),
  performServerRemove,
)
