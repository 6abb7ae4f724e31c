// Shows a wait: a live block on a terminal, a line per event elsewhere, folded groups where a CI system supports them,
// the raw log on request. verdict.ts reports the outcome.

import { isLifecycle } from '@berth/shared'
import type { Task } from '@berth/shared/api'
import type { Api } from '../client/api.ts'
import { readLines } from '../client/log-stream.ts'
import { type Target, targetName } from '../client/resolve.ts'
import type { WaitWatcher } from '../client/wait.ts'
import type { Context } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { formatClock, shortCommit } from '../terminal/format.ts'
import { cleanLogLine, cleanText, cutText } from '../terminal/text.ts'
import { LastLines } from './last-lines.ts'
import { LiveBlock } from './live.ts'
import { blockLines, describeChanges, describeStill, type TaskEvent } from './progress.ts'

interface Reporter extends WaitWatcher {
  /** The task is known; `task` as the server sent it. */
  begin(task: Task): Promise<void>
  /** The wait is over, however it ended. */
  end(): Promise<void>
}

/** 'stop web of ' */
const lifecycleText = ({ type, service }: Task): string =>
  isLifecycle(type) || type === 'backup' || type === 'restore'
    ? `${type}${service === null ? '' : ` ${service}`} of `
    : ''

/** 'Task 813  shop / pr-42  checkout-v2 @ c136499 "Fix totals"     https://…/tasks/813' */
export function taskHeader(task: Task, target: Target): string {
  const commit = task.commit_sha === null ? '' : ` @ ${shortCommit(task.commit_sha)}`
  const title = task.commit_message === null ? '' : ` "${task.commit_message.split('\n')[0]}"`
  const action = task.action === null ? lifecycleText(task) : `${task.action} on `
  const subject = cutText(cleanText(`${action}${task.branch}${commit}${title}`), 70)
  return `Task ${task.id}  ${cleanText(targetName(target))}  ${subject}     ${cleanText(task.url)}`
}

function liveReporter(context: Context, target: Target, api: Api): Reporter {
  const { io, screen } = context
  const block = new LiveBlock(io.stderr)
  const last = new LastLines(api)
  const lastLine = (step: string) => last.of(step)
  let seen: { task: Task; serverNow: number; at: number } | undefined
  let lostReason: string | undefined
  const show = () =>
    block.start((frame, width) => {
      if (!seen) return []
      const serverNow = seen.serverNow + (io.now() - seen.at)
      const { paint } = screen.err
      const lines = blockLines(seen.task, { serverNow, frame, width, paint, lastLine })
      if (lostReason) {
        const text = cutText(`! ${cleanText(lostReason)}; trying again`, width)
        lines.push(screen.err.paint('yellow', text))
      }
      return lines
    })
  return {
    async begin(task) {
      await screen.note(taskHeader(task, target))
      seen = { task, serverNow: io.now(), at: io.now() }
      show()
    },
    update(task, serverNow) {
      seen = { task, serverNow, at: io.now() }
      void last.refresh(task)
    },
    lost(reason) {
      lostReason = reason
    },
    found() {
      lostReason = undefined
    },
    end: () => block.stop(),
  }
}

interface Folding {
  open(event: TaskEvent, now: number): string[]
  close(name: string, now: number): string[]
}

/** How GitHub Actions and GitLab CI fold their logs; others get plain lines. */
function chooseFolding(env: Context['io']['env'], colour: boolean): Folding | undefined {
  if (env.GITHUB_ACTIONS === 'true') {
    return {
      open: (event) => [`::group::${cleanText(event.opens?.title ?? '').replaceAll('%', '%25')}`],
      close: () => ['::endgroup::'],
    }
  }
  // GitLab's markers are escape sequences, so only where those are allowed
  if (env.GITLAB_CI !== 'true' || !colour) return undefined
  const section = (word: string, name: string, now: number, title: string) => {
    const id = `${Math.floor(now / 1_000)}:berth_${name.replace(/\W/g, '_')}`
    return `\u001b[0Ksection_${word}:${id}\r\u001b[0K${title}`
  }
  return {
    open: (event, now) =>
      event.opens ? [section('start', event.opens.name, now, cleanText(event.opens.title))] : [],
    close: (name, now) => [section('end', name, now, '')],
  }
}

function lineReporter(context: Context, target: Target, api: Api): Reporter {
  const { io, screen } = context
  const last = new LastLines(api)
  let saidAt = io.now()
  const name = `${target.project.name}/${target.environment.identifier}`
  const folding = chooseFolding(io.env, screen.err.colour)
  let before: Task | null = null
  let openPhase: string | undefined
  const say = (text: string) => {
    saidAt = io.now()
    return screen.note(`${formatClock(saidAt)} ${text}`)
  }
  const closeGroup = async () => {
    if (openPhase === undefined) return
    for (const line of folding?.close(openPhase, io.now()) ?? []) await screen.note(line)
    openPhase = undefined
  }
  async function update(task: Task): Promise<void> {
    for (const event of describeChanges(before, task, name)) {
      if (event.opens) {
        await closeGroup()
        for (const line of folding?.open(event, io.now()) ?? []) await screen.note(line)
        openPhase = event.opens.name
      }
      await say(event.text)
      if (event.closes) await closeGroup()
    }
    before = task
  }
  /** Many systems end a job that is silent for long, and people want to know that it goes on. */
  async function still(): Promise<void> {
    if (before === null || io.now() - saidAt < CLIENT.progressMs) return
    await last.refresh(before)
    await say(describeStill(before, io.now(), (step) => last.of(step)))
  }
  return {
    begin: update,
    update,
    still,
    lost: (reason) => say(`${cleanText(reason)}; trying again`),
    found: () => say('contact again'),
    end: closeGroup,
  }
}

/** `--log`: the task's own output instead of its phases. */
function logReporter(context: Context, target: Target, api: Api): Reporter {
  const { io, screen } = context
  let reading: Promise<void> = Promise.resolve()
  let stopped = false
  async function follow(taskId: number): Promise<void> {
    const request = { taskId, fromLine: 1, phase: undefined, follow: true }
    // with --json stdout belongs to the task
    const sink = screen.json ? io.stderr : io.stdout
    const colour = screen.json ? screen.err.colour : screen.out.colour
    try {
      for await (const line of readLines(api, io, request)) {
        if (stopped) return
        await sink.write(`${cleanLogLine(line.text, colour)}\n`)
      }
    } catch (error) {
      // the verdict does not depend on it
      if (!io.interrupted.aborted)
        await screen.warn(`the log ends here: ${(error as Error).message}`)
    }
  }
  return {
    async begin(task) {
      await screen.note(taskHeader(task, target))
      reading = follow(task.id)
    },
    update: () => {},
    lost: (reason) => screen.warn(`${reason}; trying again`),
    found: () => {},
    async end() {
      let timer: NodeJS.Timeout | undefined
      const limit = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, io.interrupted.aborted ? 0 : CLIENT.logDrainMs)
      })
      await Promise.race([reading, limit])
      clearTimeout(timer)
      stopped = true
    },
  }
}

export function createReporter(
  context: Context,
  target: Target,
  api: Api,
  showLog: boolean,
): Reporter {
  if (showLog) return logReporter(context, target, api)
  const { live } = context.screen
  return live ? liveReporter(context, target, api) : lineReporter(context, target, api)
}
