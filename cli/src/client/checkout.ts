// The git checkout of the working directory, for `berth up`: where it comes from, what is committed, what is pushed.
// git is always called with an argument list, never asks for a password, and every call has a limit.
import { execFile } from 'node:child_process'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, interrupted, usage } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import { findRoot } from './repository.ts'

export interface Remote {
  name: string
  url: string
}

export interface Checkout {
  root: string
  /** The name of its folder. */
  name: string
  remotes: Remote[]
  /** null: no branch is checked out. */
  branch: string | null
  /** `prompts`: git may ask for a password, on the terminal itself. */
  git(args: readonly string[], timeoutMs?: number, prompts?: boolean): Promise<string>
  /** undefined: git refused. */
  tryGit(args: readonly string[], timeoutMs?: number): Promise<string | undefined>
}

const OUTPUT_BYTES = 4_194_304

/** The last line that git printed is why it failed. */
function gitFailure(args: readonly string[], error: unknown): CliError {
  const { stderr = '', code } = error as { stderr?: string; code?: unknown }
  if (code === 'ENOENT') return new CliError(EXIT.error, 'git is not installed')
  const lines = stderr.split('\n').filter((line) => line.trim() !== '')
  const said = lines.find((line) => /^(?:fatal|error):/.test(line)) ?? lines.at(-1) ?? 'no reason'
  return new CliError(EXIT.error, `git ${args[0]} failed: ${said}`, undefined, error)
}

export async function openCheckout(io: Io): Promise<Checkout> {
  const root = await findRoot(io.cwd)
  if (root === undefined) {
    throw usage(
      'this folder is not a git checkout',
      'Berth deploys what a git server has: git init, commit, add a remote and push; then berth up',
    )
  }
  const git = async (
    args: readonly string[],
    timeoutMs: number = CLIENT.gitMs,
    prompts = false,
  ) => {
    try {
      const { stdout } = await promisify(execFile)('git', [...args], {
        cwd: root,
        timeout: timeoutMs,
        maxBuffer: OUTPUT_BYTES,
        env: { ...io.env, GIT_TERMINAL_PROMPT: prompts ? '1' : '0', LC_ALL: 'C' },
        signal: io.interrupted,
      })
      return stdout.trimEnd()
    } catch (error) {
      throw io.interrupted.aborted ? interrupted() : gitFailure(args, error)
    }
  }
  const tryGit = (args: readonly string[], timeoutMs?: number) =>
    git(args, timeoutMs).catch((error: unknown) => {
      if (io.interrupted.aborted) throw error
      return undefined
    })
  const names = (await tryGit(['remote']))?.split('\n').filter((name) => name !== '') ?? []
  const remotes: Remote[] = []
  for (const name of names) {
    const url = await tryGit(['remote', 'get-url', '--', name])
    if (url) remotes.push({ name, url })
  }
  const branch = (await tryGit(['symbolic-ref', '--quiet', '--short', 'HEAD'])) ?? null
  return { root, name: basename(root), remotes, branch, git, tryGit }
}

/** The branch that the remote checks out by default, as far as this checkout knows. */
export async function defaultBranch(checkout: Checkout, remote: string): Promise<string | null> {
  const head = await checkout.tryGit([
    'symbolic-ref',
    '--quiet',
    '--short',
    `refs/remotes/${remote}/HEAD`,
  ])
  return head?.startsWith(`${remote}/`) ? head.slice(remote.length + 1) : null
}

export interface Pushed {
  /** The commit of the branch at the remote; null: it has no such branch. */
  sha: string | null
  /** Commits of HEAD that the remote does not have; null: this checkout does not know. */
  ahead: number | null
  /** The remote was asked; otherwise this is what was known at the last fetch. */
  isFresh: boolean
}

export async function lookAtRemote(
  checkout: Checkout,
  remote: string,
  branch: string,
): Promise<Pushed> {
  const ref = `refs/heads/${branch}`
  const answer = await checkout.tryGit(['ls-remote', '--', remote, ref], CLIENT.gitRemoteMs)
  const isFresh = answer !== undefined
  const known = await checkout.tryGit(['rev-parse', '--verify', `refs/remotes/${remote}/${branch}`])
  const sha = isFresh ? (/^([0-9a-f]{40,64})\t/.exec(answer)?.[1] ?? null) : (known ?? null)
  const range = sha === null ? ['HEAD'] : [`${sha}..HEAD`]
  const count = await checkout.tryGit(['rev-list', '--count', ...range, '--'])
  return { sha, ahead: count === undefined ? null : Number(count), isFresh }
}

/** Whether a commit has this file; null: the commit is not here. */
export async function hasFile(
  checkout: Checkout,
  sha: string | null,
  path: string,
): Promise<boolean | null> {
  if (sha === null) return false
  if ((await checkout.tryGit(['cat-file', '-e', `${sha}^{commit}`])) === undefined) return null
  return (await checkout.tryGit(['cat-file', '-e', `${sha}:${path}`])) !== undefined
}

/** Paths with changes that are not committed. */
export async function uncommitted(checkout: Checkout, paths: readonly string[]): Promise<string[]> {
  const text = await checkout.git(['status', '--porcelain=v1', '-z', '--', ...paths])
  return text.split('\0').flatMap((line) => (line.length > 3 ? [line.slice(3)] : []))
}

/** Commits exactly these paths, and nothing else that is staged. */
export async function commitPaths(
  checkout: Checkout,
  paths: readonly string[],
  message: string,
): Promise<void> {
  await checkout.git(['add', '--', ...paths])
  await checkout.git(
    ['commit', '--quiet', '--message', message, '--', ...paths],
    CLIENT.gitRemoteMs,
  )
}

export const pushBranch = (
  checkout: Checkout,
  remote: string,
  branch: string,
  prompts: boolean,
): Promise<string> => {
  const words = ['push', '--quiet', '--', remote, `HEAD:refs/heads/${branch}`]
  return checkout.git(words, CLIENT.gitPushMs, prompts)
}

/** Without a user or a password, which must not reach another machine. ssh needs its user. */
export function withoutSecrets(url: string): string {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return url
  const parsed = new URL(url)
  parsed.username = ''
  parsed.password = ''
  return parsed.href
}
