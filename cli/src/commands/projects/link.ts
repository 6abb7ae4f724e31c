// berth link, unlink: the project and environment that a folder means, and on which control plane. The file comes with
// the checkout, so its address counts only for users who are logged in there.
import { mkdir, rmdir, unlink as unlinkFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Environment } from '@berth/shared/api'
import { findLink, findRoot } from '../../client/repository.ts'
import { findProject, matchEnvironment } from '../../client/resolve.ts'
import { type Context, compose } from '../../context.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'

async function writeLink(path: string, link: object): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, `${JSON.stringify(link, null, 2)}\n`)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CliError(EXIT.error, `${path} cannot be written (${code})`)
  }
}

async function performLink(_: unknown, context: Context): Promise<ExitCode> {
  const { io, globals, screen } = context
  const api = await context.connect()
  const project = await findProject(api, context, 'change')
  const word = globals.env || io.env.BERTH_ENV
  let environment: string | null = null
  if (word) {
    const { items } = await api.list(`/api/projects/${project.id}/environments`, Environment)
    environment = matchEnvironment(word, items, project.name, 'change').identifier
  }
  const path = join((await findRoot(io.cwd)) ?? io.cwd, '.berth', 'project.json')
  const link = { project: project.name, environment, url: api.baseUrl }
  await writeLink(path, link)
  const name = environment === null ? project.name : `${project.name} / ${environment}`
  await screen.note(`${screen.err.paint('green', '✓')} Linked to ${cleanText(name)} in ${path}`)
  if (screen.json) await screen.printJson({ ...link, path })
  else if (!screen.human) {
    await screen.print([project.name, environment ?? '-'].map(cleanText).join('\t'))
  }
  return EXIT.done
}

export const link = compose(() => undefined, performLink)

async function performUnlink(_: unknown, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const path = await findLink(io.cwd)
  if (path === undefined) {
    await screen.note('Nothing to do: this folder is not linked')
  } else {
    try {
      await unlinkFile(path)
      await rmdir(dirname(path)).catch(() => {}) // fails if the user has other files in it
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw new CliError(EXIT.error, `${path} cannot be removed (${code})`)
    }
    await screen.note(`${screen.err.paint('green', '✓')} Removed ${path}`)
  }
  if (screen.json) await screen.printJson({ removed: path ?? null })
  return EXIT.done
}

export const unlink = compose(() => undefined, performUnlink)
