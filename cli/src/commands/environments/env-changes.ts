// berth env edit, set, watch, delete, reset. An irreversible change needs --yes or the exact name; a protected
// environment needs the name, which the server checks.
import { randomUUID } from 'node:crypto'
import { Environment, EnvironmentPatch, EnvironmentWatch, Server, Task } from '@berth/shared/api'
import { findTarget, matchNamed, targetName } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { readSettings, typedSettings } from '../assignments.ts'
import { invalidInput } from '../projects/projects.ts'
import { confirmName } from '../prompt.ts'

interface EnvEditOptions {
  server: string | undefined
  body: EnvironmentPatch
}

/** Only flags that were given; a switch has two names. */
export function givenSettings(
  flags: Invocation['flags'],
  texts: Record<string, string>,
  switches: Record<string, string>,
): Record<string, unknown> {
  const body: Record<string, unknown> = {}
  for (const [flag, field] of Object.entries(texts)) {
    const value = flagText(flags, flag)
    if (value !== undefined) body[field] = value
  }
  for (const [flag, field] of Object.entries(switches)) {
    if (typeof flags[flag] === 'boolean') body[field] = flags[flag]
  }
  return body
}

function parseEnvEdit({ flags }: Invocation): EnvEditOptions {
  const asked = givenSettings(
    flags,
    { title: 'title', domain: 'domain', branch: 'branch', recipe: 'recipe' },
    { protected: 'protected', sticky: 'sticky', autoDeploy: 'auto_deploy' },
  )
  if (asked.recipe === 'inherit') asked.recipe = null
  const checked = EnvironmentPatch.safeParse(asked)
  if (!checked.success) throw invalidInput(checked.error.issues)
  const server = flagText(flags, 'server')
  if (Object.keys(asked).length === 0 && server === undefined) {
    throw usage('nothing to change', 'berth help env edit lists the settings')
  }
  return { server, body: checked.data }
}

async function performEnvEdit(options: EnvEditOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const body = { ...options.body }
  if (options.server !== undefined) {
    const { items } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
    body.server_id = matchNamed(options.server, items, 'server', 'change').id
  }
  const path = `/api/environments/${target.environment.id}`
  const { raw } = await api.change('PATCH', path, Environment, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  await screen.note(`${screen.err.paint('green', '✓')} Saved ${cleanText(targetName(target))}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const envEdit = compose(parseEnvEdit, performEnvEdit)

const ENV_KEYS = Object.keys(EnvironmentPatch.shape)

/** `env set key=value…`: the API's own names, except that `server` takes a name. */
function parseEnvSet({ args }: Invocation): EnvEditOptions {
  const { server, ...pairs } = readSettings(args, ['server', ...ENV_KEYS])
  const asked = typedSettings(pairs, EnvironmentPatch.shape, { recipe: { inherit: null } })
  const checked = EnvironmentPatch.safeParse(asked)
  if (!checked.success) throw invalidInput(checked.error.issues)
  return { server, body: checked.data }
}

export const envSet = compose(parseEnvSet, performEnvEdit)

async function performEnvWatch(watching: boolean, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'read')
  const path = `/api/environments/${target.environment.id}/watch`
  const { raw } = await api.change('PUT', path, EnvironmentWatch, {
    body: { watching },
    expect: 200,
  })
  const name = cleanText(targetName(target))
  const said = watching
    ? `You get a mail when ${name} is degraded, and when it has recovered`
    : `You no longer watch ${name}`
  await screen.note(`${screen.err.paint('green', '✓')} ${said}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const envWatch = compose(({ flags }: Invocation) => !flagOn(flags, 'off'), performEnvWatch)

async function performEnvDelete(
  options: { confirm: string | undefined; force: boolean; forget: boolean },
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const { identifier, id } = target.environment
  const what = `this removes ${targetName(target)} and its data from ${target.environment.server.name}`
  const confirm = await confirmName(context, options.confirm, identifier, what)
  // --yes does not override protection, which requires the name
  const isNamed = options.confirm !== undefined || !context.globals.yes
  const named = target.environment.protected && !isNamed ? undefined : confirm
  const { value: task, raw } = await api.change('DELETE', `/api/environments/${id}`, Task, {
    query: {
      confirm: named,
      force: options.force ? 'true' : undefined,
      forget: options.forget ? 'true' : undefined,
    },
    expect: 202,
  })
  const name = cleanText(targetName(target))
  const mark = screen.err.paint('green', '✓')
  const gone = task.finished_at !== null
  await screen.note(
    gone ? `${mark} ${name} is gone` : `${mark} ${name} is being removed: task ${task.id}`,
  )
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${task.id}\t${task.status}`)
  return EXIT.done
}

export const envDelete = compose(
  ({ flags }: Invocation) => ({
    confirm: flagText(flags, 'confirm'),
    force: flagOn(flags, 'force'),
    forget: flagOn(flags, 'forget'),
  }),
  performEnvDelete,
)

async function performEnvReset(
  options: { confirm: string | undefined },
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const { identifier, id } = target.environment
  const what = `this deletes the data of ${targetName(target)} and deploys it anew`
  const confirm = await confirmName(context, options.confirm, identifier, what)
  const { value: task, raw } = await api.post(`/api/environments/${id}/reset`, Task, {
    body: { confirm },
    idempotencyKey: randomUUID(),
    expect: 201,
  })
  await screen.note(
    `${screen.err.paint('green', '✓')} ${cleanText(targetName(target))} is reset: task ${task.id}`,
  )
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${task.id}\t${task.status}`)
  return EXIT.done
}

export const envReset = compose(
  ({ flags }: Invocation) => ({ confirm: flagText(flags, 'confirm') }),
  performEnvReset,
)
