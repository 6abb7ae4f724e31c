// Sends events as Gitea does: its shapes, its headers, its signature.
import { createHmac, randomUUID } from 'node:crypto'
import type { ForgeEvent } from './pushes.ts'
import type { Hook, Pull, Repository } from './state.ts'

const DEADLINE_MS = 10_000
const NULL_ID = '0'.repeat(40)

/** What Berth answers to a delivery. */
export interface Outcome {
  delivery: string | number
  outcome: string
  reason: string | null
  task_ids: number[]
}

export const repositoryJson = (repository: Repository, url: string) => {
  const [owner = '', name = ''] = repository.name.split('/')
  return {
    id: repository.id,
    name,
    full_name: repository.name,
    owner: { id: 1, login: owner },
    private: false,
    html_url: `${url}/${repository.name}`,
    clone_url: `${url}/${repository.name}.git`,
    ssh_url: `${url}/${repository.name}.git`,
    default_branch: 'main',
    permissions: { admin: true, push: true, pull: true },
  }
}

export const pullJson = (repository: Repository, pull: Pull, url: string) => {
  const repo = repositoryJson(repository, url)
  const end = (ref: string, sha: string) => ({ ref, label: ref, sha, repo_id: repo.id, repo })
  return {
    id: pull.number,
    number: pull.number,
    title: pull.title,
    state: pull.state,
    merged: pull.merged,
    draft: false,
    html_url: `${url}/${repository.name}/pulls/${pull.number}`,
    user: { id: 1, login: pull.author },
    head: end(pull.branch, pull.head),
    base: end(pull.base, NULL_ID),
    updated_at: pull.updatedAt,
  }
}

/** The event's name and body. */
export function payloadOf(repository: Repository, event: ForgeEvent, url: string) {
  const both = { repository: repositoryJson(repository, url), sender: { id: 1, login: 'you' } }
  if (event.kind === 'push') {
    const { branch, before, after } = event.change
    const body = {
      ref: `refs/heads/${branch}`,
      before: before ?? NULL_ID,
      after: after ?? NULL_ID,
      ...both,
    }
    return { name: 'push', body }
  }
  const { pull, action } = event
  const body = {
    action,
    number: pull.number,
    pull_request: pullJson(repository, pull, url),
    ...both,
  }
  const name = action === 'synchronized' ? 'pull_request_sync' : 'pull_request'
  return { name, body }
}

/** Throws with a sentence if the receiver does not take it. */
export async function deliver(
  hook: Hook,
  { name, body }: { name: string; body: unknown },
): Promise<Outcome> {
  const text = JSON.stringify(body)
  const answer = await fetch(hook.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-gitea-event': name,
      'x-gitea-delivery': randomUUID(),
      'x-gitea-signature': createHmac('sha256', hook.secret).update(text).digest('hex'),
    },
    body: text,
    signal: AbortSignal.timeout(DEADLINE_MS),
  })
  if (!answer.ok) throw new Error(`the webhook was refused: ${answer.status}`)
  return (await answer.json()) as Outcome
}
