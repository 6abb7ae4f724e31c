// Typed values that were not sent: leaving the page asks first, by a link or by closing the tab. `useSteadyKey` keeps a
// form as it is while a person types, although its values changed on the server meanwhile.
import { useBlocker } from '@tanstack/react-router'
import { useState } from 'react'
import { Button } from '../button.tsx'
import { Dialog } from '../dialog.tsx'

export function LeaveGuard({ isSending }: { isSending: boolean }) {
  const blocker = useBlocker({
    // an address may change on the same page, for example after the form itself was sent
    shouldBlockFn: ({ current, next }) => !isSending && current.pathname !== next.pathname,
    enableBeforeUnload: () => !isSending,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <Dialog title="Discard changes?" onClose={blocker.reset}>
      <p>You have changes that are not saved.</p>
      <div className="row">
        <Button kind="danger" onClick={blocker.proceed}>
          Discard changes
        </Button>
        <Button onClick={blocker.reset}>Keep editing</Button>
      </div>
    </Dialog>
  )
}

/** The React key of a form: a new key shows new values, but never while typed ones would be lost. */
export function useSteadyKey(values: unknown): [string, (isDirty: boolean) => void] {
  const now = JSON.stringify(values)
  const [held, hold] = useState<string>()
  return [held ?? now, (isDirty) => hold(isDirty ? now : undefined)]
}
