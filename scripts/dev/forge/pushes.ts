// What a push means to a forge: which pull requests it opens, updates, merges and closes. PURE.
import type { Pull } from './state.ts'

/** A branch before and after a push; null if it did not or does not exist. */
export interface Change {
  branch: string
  before: string | null
  after: string | null
}

type PullAction = 'opened' | 'synchronized' | 'closed'

export type ForgeEvent =
  | { kind: 'push'; change: Change }
  | { kind: 'pull_request'; action: PullAction; pull: Pull }

interface Pushed {
  change: Change
  /** `git push -o pr` or `-o pr=TITLE`. */
  options: string[]
  defaultBranch: string
  subject: string
  author: string
  /** Heads of open pull requests that the default branch now contains. */
  contained: string[]
  nextNumber: number
  now: string
}

const NULL_ID = /^0+$/

/** The lines that git gives to a hook: before, after, ref. Tags and other refs are left out. */
export function readChanges(lines: string): Change[] {
  const id = (text = ''): string | null => (NULL_ID.test(text) ? null : text)
  return lines
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, , ref = '']) => ref.startsWith('refs/heads/'))
    .map(([before, after, ref = '']) => ({
      branch: ref.slice('refs/heads/'.length),
      before: id(before),
      after: id(after),
    }))
}

/** Returns the events in the order of their delivery. Their pull requests are new values; the given ones stay as they are. */
export function decidePush(pulls: readonly Pull[], pushed: Pushed): ForgeEvent[] {
  const { change, defaultBranch, now } = pushed
  const open = pulls.filter((pull) => pull.state === 'open')
  const own = open.find((pull) => pull.branch === change.branch)
  const events: ForgeEvent[] = [{ kind: 'push', change }]
  const end = (pull: Pull, merged: boolean): void => {
    const ended: Pull = { ...pull, state: 'closed', merged, updatedAt: now }
    events.push({ kind: 'pull_request', action: 'closed', pull: ended })
  }
  if (change.after === null) {
    if (own) end(own, false)
    return events
  }
  if (change.branch === defaultBranch) {
    for (const pull of open) if (pushed.contained.includes(pull.head)) end(pull, true)
    return events
  }
  if (own) {
    const pull: Pull = { ...own, head: change.after, updatedAt: now }
    events.push({ kind: 'pull_request', action: 'synchronized', pull })
    return events
  }
  const option = pushed.options.find((one) => one === 'pr' || one.startsWith('pr='))
  if (option === undefined && !change.branch.startsWith('pr/')) return events
  const pull: Pull = {
    number: pushed.nextNumber,
    title: option?.slice('pr='.length) || pushed.subject,
    author: pushed.author,
    branch: change.branch,
    base: defaultBranch,
    head: change.after,
    state: 'open',
    merged: false,
    updatedAt: now,
  }
  events.push({ kind: 'pull_request', action: 'opened', pull })
  return events
}
