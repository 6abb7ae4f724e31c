// A dialog that confirms or takes a short form. The browser's own <dialog> handles focus, Escape and the backdrop.
import { type ReactNode, useEffect, useId, useRef } from 'react'
import { Button } from './button.tsx'
import css from './dialog.module.css'
import { Icon } from './icon.tsx'

interface DialogProps {
  title: string
  onClose(): void
  children: ReactNode
  /** The user cannot dismiss it; used for the end of the session. */
  isFirm?: boolean
}

export function Dialog({ title, onClose, children, isFirm = false }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = ref.current
    const opener = document.activeElement
    dialog?.showModal()
    return () => {
      dialog?.close()
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [])
  return (
    <dialog
      ref={ref}
      className={css.dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        if (!isFirm) onClose()
      }}
    >
      <div className={css.head}>
        <h2 id={id}>{title}</h2>
        {!isFirm && (
          <Button kind="quiet" small aria-label="Close" onClick={onClose}>
            <Icon name="cross" />
          </Button>
        )}
      </div>
      <div className={css.body}>{children}</div>
    </dialog>
  )
}
