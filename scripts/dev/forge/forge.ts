// The forge of `npm start`: a place for repositories on loopback, with pushes, pull requests, webhooks and the part of
// Gitea's API that Berth uses. A push to an address that has no repository yet creates one. Everyone on this machine can
// read it; only the person who started it, and root, can push.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { answerGit } from '../../git-server.ts'
import { makeApi } from './api.ts'
import { deliver, type Outcome, payloadOf } from './deliveries.ts'
import { type Change, decidePush, type ForgeEvent, readChanges } from './pushes.ts'
import { type Hook, type Repository, State } from './state.ts'

const run = promisify(execFile)
const BODY_BYTES = 1_000_000
const REPOSITORY = /^\/([\w-][\w.-]*\/[\w-][\w.-]*?)\.git(\/.*)?$/

export interface Forge {
  url: string
  /** For its API. */
  token: string
  /** Creates a repository from the files of a folder, if there is none of this name. */
  seed(name: string, folder: string): Promise<void>
  close(): Promise<void>
}

/** Tells the person who pushes what happens to a delivery, line by line, until it is over. */
export type Follow = (
  event: ForgeEvent,
  outcome: Outcome,
  say: (line: string) => void,
) => Promise<void>

export async function startForge(options: {
  folder: string
  port: number
  token: string
  follow: Follow
}): Promise<Forge> {
  const { folder, port, token, follow } = options
  const url = `http://127.0.0.1:${port}`
  const secret = randomBytes(24).toString('base64url')
  mkdirSync(folder, { recursive: true })
  const state = new State(join(folder, 'forge.json'))
  const api = makeApi(state, url, async ({ name }) => {
    const branch = await git(name, 'symbolic-ref', '--short', 'HEAD')
    const sha = await git(name, 'rev-parse', '--verify', branch).catch(() => undefined)
    return sha === undefined ? undefined : { branch, sha }
  })
  const gitDir = (name: string): string => join(folder, `${name}.git`)
  const git = async (name: string, ...args: string[]): Promise<string> => {
    const { stdout } = await run('git', ['-c', 'safe.directory=*', '-C', gitDir(name), ...args])
    return stdout.trim()
  }

  async function create(name: string): Promise<Repository> {
    const known = state.find(name)
    if (known && existsSync(gitDir(known.name))) return known
    await run('git', ['init', '--quiet', '--bare', '--initial-branch=main', gitDir(name)])
    return known ?? state.add(name)
  }

  async function applyChange(
    repository: Repository,
    change: Change,
    pushOptions: string[],
  ): Promise<ForgeEvent[]> {
    const { name, pulls } = repository
    const defaultBranch = (await git(name, 'symbolic-ref', '--short', 'HEAD')) || 'main'
    const [subject = '', author = ''] = change.after
      ? (await git(name, 'log', '-1', '--format=%s%n%an', change.after)).split('\n')
      : []
    const contained: string[] = []
    if (change.branch === defaultBranch && change.after !== null) {
      for (const { head } of pulls.filter((pull) => pull.state === 'open')) {
        const isIn = git(name, 'merge-base', '--is-ancestor', head, change.after)
        if (
          await isIn.then(
            () => true,
            () => false,
          )
        )
          contained.push(head)
      }
    }
    const events = decidePush(pulls, {
      change,
      options: pushOptions,
      defaultBranch,
      subject,
      author,
      contained,
      nextNumber: Math.max(0, ...pulls.map((pull) => pull.number)) + 1,
      now: new Date().toISOString(),
    })
    for (const event of events) {
      if (event.kind !== 'pull_request') continue
      const { pull } = event
      repository.pulls = [...repository.pulls.filter((one) => one.number !== pull.number), pull]
      // a forge keeps the head of a pull request, also after its branch is gone
      await git(name, 'update-ref', `refs/pull/${pull.number}/head`, pull.head)
    }
    state.save()
    return events
  }

  async function onPushed(body: Record<string, unknown>, say: (line: string) => void) {
    const repository = state.find(String(body.repository))
    if (!repository) return
    for (const change of readChanges(String(body.changes))) {
      const events = await applyChange(repository, change, (body.options as string[]) ?? [])
      for (const event of events) announce(event, say)
      const hooks = repository.hooks.filter((hook) => hook.active)
      if (hooks.length === 0) say('No project deploys this repository yet. Run berth up in it.')
      for (const hook of hooks) await deliverAll(repository, hook, events, say)
    }
  }

  /** Every event is delivered before one is followed: the second says what the first one is about. */
  async function deliverAll(
    repository: Repository,
    hook: Hook,
    events: ForgeEvent[],
    say: (line: string) => void,
  ): Promise<void> {
    try {
      const outcomes: [ForgeEvent, Outcome][] = []
      for (const event of events) {
        outcomes.push([event, await deliver(hook, payloadOf(repository, event, url))])
      }
      for (const [event, outcome] of outcomes) await follow(event, outcome, say)
    } catch (error) {
      say(`${hook.url}: ${(error as Error).message}`)
    }
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const at = new URL(request.url ?? '/', url)
    const [, name, rest] = REPOSITORY.exec(at.pathname) ?? []
    if (name !== undefined) return answerRepository(request, response, name, rest ?? '')
    if (at.pathname === '/-/pushed') {
      if (request.headers['x-hook-secret'] !== secret) return void response.writeHead(403).end()
      const body = await readBody(request)
      response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' })
      const say = (line: string): void => void (response.writable && response.write(`${line}\n`))
      return onPushed(body, say).finally(() => response.end())
    }
    if (!at.pathname.startsWith('/api/v1/')) {
      response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' })
      return void response.end(describe(state, url, at.pathname))
    }
    const isKnown = request.headers.authorization === `token ${token}`
    const { status, json } = isKnown
      ? await api({
          method: request.method ?? 'GET',
          path: at.pathname.slice('/api/v1'.length),
          query: at.searchParams,
          body: await readBody(request),
        })
      : { status: 401, json: { message: 'token is required' } }
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(json === undefined ? undefined : JSON.stringify(json))
  }

  async function answerRepository(
    request: IncomingMessage,
    response: ServerResponse,
    name: string,
    rest: string,
  ): Promise<void> {
    const isPush = (request.url ?? '').includes('git-receive-pack')
    if (!isPush) return answerGit(folder, request, response)
    if (!mayPush(request.socket)) {
      response.writeHead(403, { 'content-type': 'text/plain' })
      return void response.end('Only the account that runs npm start can push here.\n')
    }
    if (rest === '/info/refs') await create(name)
    answerGit(folder, request, response, {
      write: true,
      config: {
        'core.hooksPath': join(import.meta.dirname, 'hooks'),
        'receive.advertisePushOptions': 'true',
        'receive.hideRefs': 'refs/pull', // the forge's own
      },
      env: {
        BERTH_FORGE_NODE: process.execPath,
        BERTH_FORGE_HOOK: join(import.meta.dirname, 'post-receive.ts'),
        BERTH_FORGE_URL: url,
        BERTH_FORGE_SECRET: secret,
        BERTH_FORGE_REPOSITORY: name,
      },
    })
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => {
      if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' })
      response.end(`${error.message}\n`)
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    url,
    token,
    async seed(name, files) {
      if (state.find(name) && existsSync(gitDir(name))) return
      await create(name)
      const work = ['--git-dir', gitDir(name), '--work-tree', files]
      const who = [
        '-c',
        'user.name=Berth',
        '-c',
        'user.email=berth@localhost',
        '-c',
        'core.bare=false',
      ]
      await run('git', [...who, ...work, 'add', '--all'])
      await run('git', [...who, ...work, 'commit', '--quiet', '--message=Hello'])
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function announce(event: ForgeEvent, say: (line: string) => void): void {
  if (event.kind === 'push') return
  const { pull, action } = event
  const done = {
    opened: 'opened',
    synchronized: 'updated',
    closed: pull.merged ? 'merged' : 'closed',
  }
  say(`Pull request #${pull.number} "${pull.title}" is ${done[action]}.`)
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk
    if (text.length > BODY_BYTES) throw new Error('The request is too large.')
  }
  return text === '' ? {} : JSON.parse(text)
}

/** A page for people who open a link: plain text is enough for a demonstration. */
function describe(state: State, url: string, path: string): string {
  const [, name = '', number] = /^\/([^/]+\/[^/]+?)(?:\/pulls\/(\d+))?\/?$/.exec(path) ?? []
  const repository = state.find(name)
  const pull = repository?.pulls.find((one) => String(one.number) === number)
  if (repository && pull) {
    const word = pull.merged ? 'merged' : pull.state
    const statuses = repository.statuses.filter((one) => one.sha === pull.head)
    const comments = repository.comments.filter((one) => one.number === pull.number)
    return [
      `Pull request #${pull.number}: ${pull.title} (${word})`,
      `${pull.branch} into ${pull.base}, by ${pull.author}, at ${pull.head}`,
      ...statuses.map(
        (one) => `${one.context}: ${one.state}. ${one.description} ${one.target_url}`,
      ),
      ...comments.map((one) => `\n${one.body}`),
      '',
    ].join('\n')
  }
  const list = state.repositories.map((one) => `  ${url}/${one.name}.git`)
  return `The forge of npm start. Its repositories:\n${list.join('\n')}\n\nA push to another address creates a repository.\n`
}

/** The accounts that may push; with sudo also the person behind it. */
const OWNERS = new Set([0, process.getuid?.(), Number(process.env.SUDO_UID || 0)])

/** The kernel knows whose socket is at the other end, so no password is needed on loopback. */
function mayPush({ remoteAddress, remotePort, localPort }: Socket): boolean {
  if (remoteAddress !== '127.0.0.1' || !existsSync('/proc/net/tcp')) return false
  const end = (port = 0): string => `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const [mine, theirs] = [end(localPort), end(remotePort)]
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n')) {
    const words = line.trim().split(/\s+/)
    if (words[1] === theirs && words[2] === mine) return OWNERS.has(Number(words[7]))
  }
  return false
}
