// Parts that several pages show for an environment: why it is locked, its owner, its Deploy button.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Ask, useAct } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { FormError } from '../../components/forms/form.tsx'
import { useShortcuts } from '../../components/shortcuts.ts'
import { Note } from '../../components/states.tsx'
import { type Environment, useEnvironment } from '../../data.ts'
import { triggerWords } from '../../format.ts'

/** "Deployment 813 is running (started by a push)" */
export function lockReason(e: Environment): string | undefined {
  if (!e.locked) return undefined
  const by = e.locked_by
  if (!by) return 'A deployment is running.'
  const state = by.status === 'queued' ? 'is queued' : 'is running'
  return `Deployment ${by.task_id} ${state} (started ${triggerWords(by.trigger)}).`
}

export const isReadOnly = (e: Environment): boolean =>
  e.protected && !e.may.includes('edit') && e.status !== 'removing'

/** Undefined if it can be deployed. The server decides; only the wording is derived here. */
export function deployReason(e: Environment): string | undefined {
  if (e.locked) return lockReason(e)
  if (e.may.includes('deploy')) return undefined
  if (e.status === 'removing') return 'This environment is being removed.'
  if (e.pull_request?.approval === 'required')
    return 'This commit comes from a fork. Approve it first.'
  return 'Your role doesn’t allow deploying.'
}

/** Undefined if an action or a backup can be started: both need what deploying needs, and something deployed. */
export const actReason = (e: Environment): string | undefined =>
  e.may.includes('act') ? undefined : (deployReason(e) ?? 'Deploy it first.')

interface DeployButtonProps {
  environment: Environment
  /** Plain where the main action of the page is another. */
  kind?: 'main' | 'plain'
}

export function DeployButton({ environment: e, kind = 'main' }: DeployButtonProps) {
  const { isBusy, problem, run } = useAct()
  const [isAsking, ask] = useState(false)
  const reason = deployReason(e)
  const deploy = () => change(api.environment.deploy.mutate({ environment_id: e.id }))
  useShortcuts({
    d: () => {
      if (!reason && !isReadOnly(e)) ask(true)
    },
  })
  if (isReadOnly(e)) return null
  return (
    <>
      <Button
        kind={kind}
        busy={isBusy}
        reason={reason}
        reasonHidden
        onClick={() => void run(deploy, 'Deployment started.')}
      >
        Deploy
      </Button>
      {problem && <FormError problem={problem} />}
      {isAsking && (
        <Ask
          title={`Deploy ${e.identifier}?`}
          submit="Deploy"
          kind="main"
          send={deploy}
          done="Deployment started."
          onClose={() => ask(false)}
        >
          <p>
            The head of <code>{e.branch}</code> is deployed to {e.server.name}.
          </p>
        </Ask>
      )}
    </>
  )
}

/** What holds the lock, and how to end it. */
export function LockLine({ environment: e }: { environment: Environment }) {
  const { isBusy, problem, run } = useAct()
  const by = e.locked_by
  if (!e.locked || !by) return null
  return (
    <div className="row">
      <Link to="/tasks/$id" params={{ id: String(by.task_id) }}>
        {lockReason(e)}
      </Link>
      <Button
        small
        busy={isBusy}
        onClick={() =>
          void run(() => change(api.task.cancel.mutate({ task_id: by.task_id })), 'Canceling.')
        }
      >
        Cancel
      </Button>
      {problem && <FormError problem={problem} />}
    </div>
  )
}

/** The variables whose keys the note below names, asked for only if it is shown. */
export function useChanged(id: number) {
  const isShown = useEnvironment(id).data?.variables_changed === true
  return useQuery({
    ...trpc.variable.list.queryOptions({ environment_id: id }),
    enabled: isShown,
  })
}

/** Shown until the next successful deployment; names the keys if the user may see them. */
export function Changed({ environment: e }: { environment: Environment }) {
  const list = useChanged(e.id).data?.variables ?? []
  const keys = list.filter((v) => v.changed_since_deployment).map((v) => v.key)
  return (
    <Note kind="warn">
      Variables changed since the last deployment{keys.length > 0 && `: ${keys.join(', ')}`}.
    </Note>
  )
}
