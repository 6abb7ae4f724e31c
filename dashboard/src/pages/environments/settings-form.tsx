// A page of settings as one form with one "Save changes". What is typed stays until it is saved or discarded: an update
// from elsewhere does not replace it, and leaving the page asks first.
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Button } from '../../components/button.tsx'
import { Form } from '../../components/forms/form.tsx'
import { LeaveGuard } from '../../components/forms/unsaved.tsx'
import css from './settings.module.css'

interface SettingsFormProps<T> {
  /** What the fields show. */
  shown: T
  /** Changes when what the fields show has changed. */
  version: string
  reason?: string | undefined
  /** `started` is what the fields showed before anything was typed. */
  send(data: FormData, started: T): Promise<void>
  children(started: T): ReactNode
}

const valuesOf = (form: HTMLFormElement): string => JSON.stringify([...new FormData(form)])

export function SettingsForm<T>(props: SettingsFormProps<T>) {
  const { shown, version, reason, send, children } = props
  const [started, start] = useState({ shown, version, round: 0 })
  const [isChanged, setChanged] = useState(false)
  const place = useRef<HTMLDivElement>(null)
  const clean = useRef<string>(undefined)
  const newest = useRef({ shown, version })
  newest.current = { shown, version }
  if (!isChanged && started.version !== version) {
    start({ shown, version, round: started.round + 1 })
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: each round starts with its own values
  useEffect(() => {
    const form = place.current?.querySelector('form')
    if (form) clean.current = valuesOf(form)
  }, [started.round])
  const look = () => {
    const form = place.current?.querySelector('form')
    if (form) setChanged(valuesOf(form) !== clean.current)
  }
  const discard = () => {
    setChanged(false)
    start({ shown, version, round: started.round + 1 })
  }
  return (
    <div ref={place} className={css.form} data-changed={isChanged || undefined} onInput={look}>
      <Form
        key={started.round}
        label="Settings"
        guards={false}
        submit="Save changes"
        done="Saved."
        reason={reason ?? (isChanged ? undefined : 'No changes to save.')}
        reasonHidden
        send={async (data) => {
          await send(data, started.shown)
          setChanged(false)
          // also forgets a password that was typed
          start({ ...newest.current, round: started.round + 1 })
        }}
        beside={
          isChanged && (
            <>
              <Button onClick={discard}>Discard</Button>
              <span className="muted" role="status">
                Unsaved changes
              </span>
            </>
          )
        }
      >
        {children(started.shown)}
      </Form>
      {isChanged && <LeaveGuard isSending={false} />}
    </div>
  )
}
