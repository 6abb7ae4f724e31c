// What a user can do with a task: cancel it, redeploy its version, roll back to it, download its log.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { Ask, useAct } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { FormError } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import type { Environment, Task } from '../../data.ts'
import { short } from '../../format.ts'
import { copyAddress } from '../../log/toolbar.tsx'
import { deployReason, isReadOnly } from '../environments/bits.tsx'

/** Gets a ticket first, so a refusal appears as a message and never as a file. */
export async function openTicket(
  ticket: Promise<{ url: string }>,
  isShown: boolean,
): Promise<void> {
  // opened during the click, or the browser blocks it as a pop-up
  const tab = isShown ? open('', '_blank') : null
  try {
    const { url } = await ticket
    if (tab) tab.location.assign(url)
    else location.assign(url)
  } catch (error) {
    tab?.close()
    throw error
  }
}

export function TaskActions({
  task: t,
  environment: e,
}: {
  task: Task
  environment: Environment | undefined
}) {
  const log = useAct()
  const raw = (shown: boolean) =>
    void log.run(() => openTicket(api.task.logTicket.mutate({ task_id: t.id, shown }), shown))
  return (
    <>
      {t.finished_at === null ? <Cancel task={t} /> : e && <Again task={t} environment={e} />}
      <Button busy={log.isBusy} onClick={() => raw(false)} aria-label="Download the raw log">
        <Icon name="download" /> Raw
      </Button>
      <Button onClick={() => raw(true)}>View as plain text</Button>
      <Button onClick={() => void copyAddress()}>
        <Icon name="copy" /> Copy link
      </Button>
      {log.problem && <FormError problem={log.problem} />}
    </>
  )
}

function Cancel({ task: t }: { task: Task }) {
  const { isBusy, problem, run } = useAct()
  const isAsked = t.cancel_requested_at !== null
  return (
    <>
      <Button
        kind="danger"
        busy={isBusy}
        reason={isAsked ? 'Cancellation requested. It ends soon.' : undefined}
        reasonHidden
        onClick={() =>
          void run(() => change(api.task.cancel.mutate({ task_id: t.id })), 'Cancel asked for.')
        }
      >
        {isAsked ? 'Canceling' : 'Cancel'}
      </Button>
      {problem && <FormError problem={problem} />}
    </>
  )
}

/** Deploys the same version again, or rolls back to an earlier one. */
export function Again({ task: t, environment: e }: { task: Task; environment: Environment }) {
  const [isAsking, ask] = useState(false)
  const navigate = useNavigate()
  const sha = t.commit_sha
  if (t.type !== 'deploy' || isReadOnly(e)) return null
  if (sha === null && t.status !== 'failed') return null
  const isBack = t.status === 'succeeded' && e.commit_sha !== sha
  const label = isBack ? `Roll back to ${short(sha)}` : sha ? 'Redeploy' : 'Deploy again'
  const deploy = async () => {
    const made = await change(
      api.environment.deploy.mutate({
        environment_id: e.id,
        ...(sha ? { commit_sha: sha } : {}),
        ...(isBack ? { reuse_release: true } : {}),
      }),
    )
    await navigate({ to: '/tasks/$id', params: { id: String(made.id) } })
  }
  return (
    <>
      <Button kind="main" reason={deployReason(e)} reasonHidden onClick={() => ask(true)}>
        {label}
      </Button>
      {isAsking && (
        <Ask
          title={`${label}?`}
          submit={isBack ? 'Roll back' : label}
          kind="main"
          send={deploy}
          done="Deployment started."
          onClose={() => ask(false)}
        >
          <p>
            {sha ? <code>{short(sha)}</code> : `What ${t.branch} has now`} {t.commit_message} is
            deployed to {e.identifier} on {e.server.name}, with the variables as they are now.
          </p>
        </Ask>
      )}
    </>
  )
}
