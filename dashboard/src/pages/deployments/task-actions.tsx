// What a user can do with a task: cancel it, redeploy its version or another one, roll back, share it, read its log.
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { useAct } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { FormError } from '../../components/forms/form.tsx'
import { Icon } from '../../components/icon.tsx'
import { onDemand } from '../../components/loading/on-demand.tsx'
import { Menu, MenuButton } from '../../components/menu.tsx'
import type { Environment, Task } from '../../data.ts'
import { short } from '../../format.ts'
import type { LogSession } from '../../log/session.ts'
import { shareAddress } from '../../log/toolbar.tsx'
import { deployReason, isReadOnly } from '../environments/bits.tsx'
import css from './task.module.css'

const DeployDialog = onDemand(async () => ({
  default: (await import('./version-dialogs.tsx')).DeployDialog,
}))
const RollBackDialog = onDemand(async () => ({
  default: (await import('./version-dialogs.tsx')).RollBackDialog,
}))

/** Gets a ticket first, so a refusal appears as a message and never as a file. */
async function openTicket(ticket: Promise<{ url: string }>, isShown: boolean): Promise<void> {
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

interface ActionsProps {
  task: Task
  environment: Environment | undefined
  session: LogSession | undefined
}

export function TaskActions({ task: t, environment: e, session }: ActionsProps) {
  const log = useAct()
  const raw = (shown: boolean) =>
    void log.run(() => openTicket(api.task.logTicket.mutate({ task_id: t.id, shown }), shown))
  return (
    <>
      {t.finished_at === null ? <Cancel task={t} /> : e && <Again task={t} environment={e} />}
      <Button onClick={() => void shareAddress(session?.search.get().query ?? '')}>
        <Icon name="copy" />
        <span className={css.wide}>Share</span>
      </Button>
      <Menu label="More actions" kind="plain" face={<Icon name="more" />}>
        <MenuButton onClick={() => raw(false)}>
          <Icon name="download" /> Download log
        </MenuButton>
        <MenuButton onClick={() => raw(true)}>
          <Icon name="out" /> View as plain text
        </MenuButton>
      </Menu>
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
          void run(
            () => change(api.task.cancel.mutate({ task_id: t.id })),
            'Cancellation requested.',
          )
        }
      >
        {isAsked ? 'Canceling' : 'Cancel'}
      </Button>
      {problem && <FormError problem={problem} />}
    </>
  )
}

/** Redeploy and Roll back; the more likely one of the two is the page's main action. */
function Again({ task: t, environment: e }: { task: Task; environment: Environment }) {
  const [asked, ask] = useState<'deploy' | 'back'>()
  if (t.type !== 'deploy' || isReadOnly(e)) return null
  const isEarlier =
    t.status === 'succeeded' && t.commit_sha !== null && e.commit_sha !== t.commit_sha
  const hasDeployed = e.commit_sha !== null
  const reason = deployReason(e)
  return (
    <>
      {hasDeployed && (
        <Button
          kind={isEarlier ? 'main' : 'plain'}
          reason={reason}
          reasonHidden
          onClick={() => ask('back')}
        >
          {isEarlier ? `Roll back to ${short(t.commit_sha)}` : 'Roll back'}
        </Button>
      )}
      <Button
        kind={isEarlier ? 'plain' : 'main'}
        reason={reason}
        reasonHidden
        onClick={() => ask('deploy')}
      >
        Redeploy
      </Button>
      {asked === 'deploy' && (
        <DeployDialog environment={e} task={t} onClose={() => ask(undefined)} />
      )}
      {asked === 'back' && (
        <RollBackDialog
          environment={e}
          commit={isEarlier ? t.commit_sha : null}
          onClose={() => ask(undefined)}
        />
      )}
    </>
  )
}
