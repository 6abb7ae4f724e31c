// What the working directory says about the project: .berth/project.json (searched upwards) and the remotes of its git
// repository. Both come with the checkout, so they only hint at what is meant: the address in the link chooses among
// those that the user is logged in to, and nothing is ever sent to another one.
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { CLIENT } from '../limits/client.ts'
import { usage } from '../terminal/exit.ts'

const Link = z.object({
  project: z.union([z.string().min(1), z.int().positive()]).transform(String),
  environment: z
    .union([z.string().min(1), z.int().positive()])
    .transform(String)
    .nullable()
    .optional(),
  /** Of the control plane; counts only for users who are logged in there. */
  url: z.url().optional(),
})
type Link = z.infer<typeof Link>

/** The nearest file, from here upwards. */
export async function findLink(cwd: string): Promise<string | undefined> {
  return (await searchLink(cwd))?.path
}

async function searchLink(cwd: string): Promise<{ path: string; text: string } | undefined> {
  let folder = cwd
  for (let level = 0; level < CLIENT.parentFolders; level++) {
    const path = join(folder, '.berth', 'project.json')
    const text = await readFile(path, 'utf8').catch(() => undefined)
    if (text !== undefined) return { path, text }
    if (dirname(folder) === folder) return undefined
    folder = dirname(folder)
  }
  return undefined
}

export async function readLink(cwd: string): Promise<Link | undefined> {
  const found = await searchLink(cwd)
  return found && parseLink(found.path, found.text)
}

function parseLink(path: string, text: string): Link {
  try {
    return Link.parse(JSON.parse(text))
  } catch {
    throw usage(`${path} is not valid`, 'expected: { "project": "shop", "environment": "staging" }')
  }
}

/** Addresses of the remotes; none outside a repository or without git. */
export async function readRemotes(cwd: string): Promise<string[]> {
  try {
    const { stdout } = await promisify(execFile)(
      'git',
      ['config', '--get-regexp', '^remote\\..*\\.url$'],
      { cwd, timeout: CLIENT.gitMs, maxBuffer: 1_048_576 },
    )
    return stdout.split('\n').flatMap((line) => {
      const space = line.indexOf(' ')
      return space > 0 ? [line.slice(space + 1)] : []
    })
  } catch {
    return []
  }
}

/** The root folder of the checkout; undefined outside a repository or without git. */
export async function findRoot(cwd: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('git', ['rev-parse', '--show-toplevel'], {
      cwd,
      timeout: CLIENT.gitMs,
      maxBuffer: 1_048_576,
    })
    return stdout.replace(/\r?\n$/, '') || undefined
  } catch {
    return undefined
  }
}

/** git@Host:acme/shop.git, ssh://git@host:2222/acme/shop, https://host/acme/shop/ are all the same. */
export function normalizeRepoUrl(address: string): string {
  const text = address.trim()
  const scp = /^(?:[^@/:]+@)?([^/:]+):(?!\/\/)(.+)$/.exec(text)
  const url = /^[a-z][a-z0-9+.-]*:\/\/(?:[^@/]*@)?(\[[^\]]*\]|[^/:]+)(?::\d+)?\/(.*)$/i.exec(text)
  const [, host, path] = url ?? scp ?? []
  if (host === undefined || path === undefined) return text
  const clean = path.replace(/^\/+|\/+$/g, '').replace(/\.git$/, '')
  return `${host.toLowerCase()}/${clean}`
}
