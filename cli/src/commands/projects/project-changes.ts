// berth project edit, set, delete. Deleting requires the project's name, and the name of each protected environment.
import { randomUUID } from 'node:crypto'
import { Environment, ProjectDetail, ProjectPatch, Server } from '@berth/shared/api'
import { findProject, matchEnvironment, matchNamed } from '../../client/resolve.ts'
import { type Context, compose, flagList, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { readSettings, typedSettings } from '../assignments.ts'
import { givenSettings } from '../environments/env-changes.ts'
import { confirmName } from '../prompt.ts'
import { invalidInput } from './projects.ts'

interface ProjectEditOptions {
  project: string | undefined
  servers: string[]
  body: ProjectPatch
}

function parseProjectEdit({ args, flags, globals }: Invocation): ProjectEditOptions {
  const asked = givenSettings(
    flags,
    {
      name: 'name',
      repo: 'repo_url',
      domain: 'domain',
      branch: 'default_branch',
      recipe: 'default_recipe',
    },
    { autoDeploy: 'auto_deploy' },
  )
  const servers = flagList(flags, 'server')
  if (Object.keys(asked).length === 0 && servers.length === 0) {
    throw usage('nothing to change', 'berth help project edit lists the settings')
  }
  const checked = ProjectPatch.safeParse(asked)
  if (!checked.success) throw invalidInput(checked.error.issues)
  return { project: args[0] ?? globals.project, servers, body: checked.data }
}

const named = (context: Context, project: string | undefined): Context => ({
  ...context,
  globals: { ...context.globals, project },
})

async function performProjectEdit(
  options: ProjectEditOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const project = await findProject(api, named(context, options.project), 'change')
  const body = { ...options.body }
  if (options.servers.length > 0) {
    const { items } = await api.list('/api/servers', Server, { query: { per_page: 100 } })
    body.server_ids = options.servers.map((w) => matchNamed(w, items, 'server', 'change').id)
  }
  const { value, raw } = await api.change('PATCH', `/api/projects/${project.id}`, ProjectDetail, {
    body,
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  await screen.note(`${screen.err.paint('green', '✓')} Saved ${cleanText(value.name)}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const projectEdit = compose(parseProjectEdit, performProjectEdit)

const PROJECT_KEYS = Object.keys(ProjectPatch.shape)

/** `project set key=value…` for the project of -p or the folder; `servers` takes names. */
function parseProjectSet({ args, globals }: Invocation): ProjectEditOptions {
  const { servers, ...pairs } = readSettings(args, ['servers', ...PROJECT_KEYS])
  const checked = ProjectPatch.safeParse(typedSettings(pairs, ProjectPatch.shape))
  if (!checked.success) throw invalidInput(checked.error.issues)
  return {
    project: globals.project,
    servers: servers === undefined ? [] : servers.split(','),
    body: checked.data,
  }
}

export const projectSet = compose(parseProjectSet, performProjectEdit)

interface ProjectDeleteOptions {
  project: string | undefined
  confirm: string | undefined
  guarded: string[]
}

async function performProjectDelete(
  options: ProjectDeleteOptions,
  context: Context,
): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const project = await findProject(api, named(context, options.project), 'change')
  const count = project.environment_count
  const what = `this removes ${project.name} and its ${count} environments from their servers`
  const confirm = await confirmName(context, options.confirm, project.name, what)
  const path = `/api/projects/${project.id}`
  const { items } = await api.list(`${path}/environments`, Environment)
  const ids = options.guarded.map((w) => matchEnvironment(w, items, project.name, 'change').id)
  const { raw } = await api.change('DELETE', path, ProjectDetail, {
    query: { confirm, confirm_protected: ids.length > 0 ? ids.join(',') : undefined },
    expect: 202,
  })
  const mark = screen.err.paint('green', '✓')
  const rest = count === 0 ? 'is gone' : 'goes when the last of its environments is gone'
  await screen.note(`${mark} ${cleanText(project.name)} ${rest}`)
  if (screen.json) await screen.printJson(raw)
  return EXIT.done
}

export const projectDelete = compose(
  ({ args, flags, globals }: Invocation): ProjectDeleteOptions => ({
    project: args[0] ?? globals.project,
    confirm: flagText(flags, 'confirm'),
    guarded: flagList(flags, 'confirmProtected'),
  }),
  performProjectDelete,
)
