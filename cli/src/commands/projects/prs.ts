// berth prs: list, approve. An approval is for one exact commit; the server refuses it after a push in between.
import { randomUUID } from 'node:crypto'
import { Commit, CommitPrefix, PullRequest, PullRequestApproved } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findProject } from '../../client/resolve.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatAgo, parseCount, shortCommit } from '../../terminal/format.ts'
import type { Cell } from '../../terminal/terminal.ts'
import { cleanText } from '../../terminal/text.ts'
import { askYes, mayAsk } from '../prompt.ts'

export async function listPullRequests(api: Api, projectId: number) {
  const path = `/api/projects/${projectId}/pull_requests`
  return api.list(path, PullRequest, { query: { per_page: 100 } })
}

/** Why a pull request has no environment yet, and what helps. */
export function waitingText(one: PullRequest): string {
  const fork = one.from_fork ? 'from a fork, ' : ''
  switch (one.waiting_for) {
    case 'approval':
      return `${fork}needs approval of ${shortCommit(one.head_sha)}: berth prs approve ${one.number}`
    case 'environment_limit':
      return `${fork}waits for a free environment, number ${one.position ?? '?'} in line`
    case 'server_not_ready':
      return `${fork}waits for a server that is ready: berth server list`
    case 'environment_removing':
      return `${fork}waits until the environment before it is removed`
    default:
      return ''
  }
}

function statusCell(one: PullRequest): Cell {
  const waiting = waitingText(one)
  if (waiting !== '') return { text: `! ${waiting}`, style: 'yellow' }
  if (one.environment_id !== null) return { text: '● has an environment', style: 'green' }
  return { text: `– ${one.state.replace('_', ' ')}${one.draft ? ', draft' : ''}`, style: 'dim' }
}

async function performPrsList(_: unknown, context: Context): Promise<ExitCode> {
  const { screen, io } = context
  const api = await context.connect()
  const project = await findProject(api, context, 'read')
  const { items, raw } = await listPullRequests(api, project.id)
  await screen.printList({
    rows: items,
    raw,
    header: ['PR', 'TITLE', 'BRANCH', 'AUTHOR', 'UPDATED', 'STATUS'],
    human: (one) => [
      { text: `#${one.number}`, style: 'bold' },
      one.title,
      one.head_branch,
      one.author,
      formatAgo(one.updated_at, io.now()),
      statusCell(one),
    ],
    plain: (one) => [
      String(one.number),
      one.state,
      one.head_branch,
      one.head_sha ?? '',
      one.author,
      one.environment_id === null ? '' : String(one.environment_id),
      one.waiting_for ?? '',
      one.updated_at,
      one.title,
    ],
    empty: `${project.name} has no open pull requests.`,
  })
  return EXIT.done
}

export const prsList = compose(() => undefined, performPrsList)

interface PrsApproveOptions {
  number: number
  commit: string | undefined
}

function parsePrsApprove({ args, flags }: Invocation): PrsApproveOptions {
  const commit = flagText(flags, 'commit')
  if (commit !== undefined && !CommitPrefix.safeParse(commit).success) {
    throw usage('--commit takes a SHA, or its first 7 or more hex digits')
  }
  return { number: parseCount('NUMBER', (args[0] ?? '').replace(/^#/, ''), 2_147_483_647), commit }
}

/** The approved commit: the named one, or the head that was shown. */
async function chooseCommit(
  { number, commit }: PrsApproveOptions,
  found: PullRequest,
  context: Context,
): Promise<string> {
  const { head_sha: head } = found
  if (commit !== undefined && Commit.safeParse(commit).success) return commit
  if (commit !== undefined) {
    // only the head can be approved, so a few digits are enough to name it
    if (head?.startsWith(commit)) return head
    throw usage(`${commit} is not the head of #${number}`, `the head is ${head ?? 'not known yet'}`)
  }
  if (head === null) throw usage(`the head of #${number} is not known yet`, 'add --commit SHA')
  if (context.globals.yes) return head
  const what = `#${number} "${found.title}" by ${found.author} at ${head}`
  if (!mayAsk(context)) {
    throw usage(`${what} is not approved; nothing was done`, `add --commit ${head}`)
  }
  await context.screen.say(cleanText(`${found.url}`))
  if (await askYes(context, `Deploy ${what}? Its code runs on your server.`)) return head
  throw new CliError(EXIT.refused, 'not approved; nothing was done')
}

async function performPrsApprove(options: PrsApproveOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const project = await findProject(api, context, 'change')
  const { items } = await listPullRequests(api, project.id)
  const found = items.find((one) => one.number === options.number)
  if (!found) {
    const known = items.slice(0, 5).map((one) => `#${one.number}`)
    const hint = known.length > 0 ? `pull requests: ${known.join(', ')}` : undefined
    const message = `no open pull request #${options.number} in ${project.name}`
    throw new CliError(EXIT.notFound, message, hint)
  }
  const sha = await chooseCommit(options, found, context)
  const path = `/api/projects/${project.id}/pull_requests/${found.number}/approve`
  const { value, raw } = await api.post(path, PullRequestApproved, {
    body: { head_sha: sha },
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  const mark = screen.err.paint('green', '✓')
  await screen.note(`${mark} Approved #${found.number} at ${shortCommit(sha)}`)
  if (value.task) await screen.note(`  Deployment: task ${value.task.id}, ${value.task.status}`)
  else if (value.waiting_for) await screen.note(cleanText(`  It ${waitingText(value)}`))
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) {
    await screen.print([found.number, sha, value.task?.id ?? '-'].map(String).join('\t'))
  }
  return EXIT.done
}

export const prsApprove = compose(parsePrsApprove, performPrsApprove)
