// Rolls back to a version that was deployed here before: a choice among the last successes, then a deployment.
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change } from '../../../api.ts'
import { Button } from '../../../components/button.tsx'
import { Dialog } from '../../../components/dialog.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Time } from '../../../components/time.tsx'
import type { Environment, Task } from '../../../data.ts'
import { short } from '../../../format.ts'
import { deployReason, isReadOnly } from '../bits.tsx'
import css from './overview.module.css'

const SHOWN = 8

interface RollBackProps {
  environment: Environment
  deployments: readonly Task[] | undefined
}

/** Each earlier version once, newest first. */
function versionsOf({ environment: e, deployments = [] }: RollBackProps): Task[] {
  const seen = new Set([e.commit_sha])
  return deployments.filter((task) => {
    if (task.status !== 'succeeded' || !task.commit_sha || seen.has(task.commit_sha)) return false
    seen.add(task.commit_sha)
    return true
  })
}

export function RollBackButton(props: RollBackProps) {
  const { environment: e } = props
  const [isOpen, open] = useState(false)
  if (isReadOnly(e) || !e.commit_sha) return null
  const versions = versionsOf(props).slice(0, SHOWN)
  const reason = deployReason(e) ?? (versions.length === 0 ? 'No earlier version.' : undefined)
  return (
    <>
      <Button reason={reason} reasonHidden onClick={() => open(true)}>
        Roll back
      </Button>
      {isOpen && <Choice environment={e} versions={versions} onClose={() => open(false)} />}
    </>
  )
}

function Choice(props: { environment: Environment; versions: Task[]; onClose(): void }) {
  const { environment: e, versions, onClose } = props
  const navigate = useNavigate()
  const send = async (data: FormData) => {
    const made = await change(
      api.environment.deploy.mutate({
        environment_id: e.id,
        commit_sha: text(data, 'commit_sha'),
        reuse_release: true,
      }),
    )
    onClose()
    await navigate({ to: '/tasks/$id', params: { id: String(made.id) } })
  }
  return (
    <Dialog title={`Roll back ${e.identifier}`} onClose={onClose}>
      <p>
        Deploys an earlier commit to {e.server.name} with today’s variables. It stays there until
        the next push or deployment.
      </p>
      <Form
        submit="Roll back"
        done="Deployment started."
        send={send}
        beside={<Button onClick={onClose}>Cancel</Button>}
      >
        <fieldset className={css.versions}>
          <legend className="visually-hidden">Version</legend>
          {versions.map((task, n) => (
            <label key={task.id} className={css.choice}>
              <input
                type="radio"
                name="commit_sha"
                value={task.commit_sha ?? ''}
                defaultChecked={n === 0}
              />
              <span className={css.chosen}>
                <span className={css.subject}>
                  <code>{short(task.commit_sha)}</code> {task.commit_message?.split('\n')[0]}
                </span>
                <span className="muted small">
                  Deployed <Time at={task.finished_at ?? task.created_at} />
                </span>
              </span>
            </label>
          ))}
        </fieldset>
      </Form>
    </Dialog>
  )
}
