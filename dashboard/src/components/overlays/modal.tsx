// A modal dialog by Base UI: it keeps the focus inside, Escape closes it, and the focus returns to what opened it. A
// press outside does not close it, because that would lose what was typed.
import { Dialog } from '@base-ui/react/dialog'
import { type ReactNode, useRef } from 'react'
import { Button } from '../button.tsx'
import { GuardsForms } from '../forms/guards.ts'
import { Icon } from '../icon.tsx'
import css from './dialog.module.css'

const FIELDS = 'input:not([type=hidden]):not([readonly]), select, textarea:not([readonly])'

export interface DialogProps {
  title: string
  onClose(): void
  children: ReactNode
  /** The user cannot dismiss it; used for the end of the session. */
  isFirm?: boolean
}

interface ModalProps extends DialogProps {
  opener: Element | null
}

export default function Modal({ title, onClose, children, isFirm = false, opener }: ModalProps) {
  const body = useRef<HTMLDivElement>(null)
  return (
    <Dialog.Root
      open
      disablePointerDismissal
      onOpenChange={(isOpen) => {
        if (!isOpen && !isFirm) onClose()
      }}
    >
      <Dialog.Portal>
        <Dialog.Backdrop className={css.backdrop ?? ''} />
        <Dialog.Viewport className={css.place ?? ''}>
          <Dialog.Popup
            className={css.dialog ?? ''}
            initialFocus={() => body.current?.querySelector<HTMLElement>(FIELDS) ?? true}
            finalFocus={() => (opener instanceof HTMLElement && opener.isConnected ? opener : true)}
          >
            <div className={css.head}>
              <Dialog.Title className={css.title ?? ''}>{title}</Dialog.Title>
              {!isFirm && (
                <Button kind="quiet" small aria-label="Close" onClick={onClose}>
                  <Icon name="cross" />
                </Button>
              )}
            </div>
            <div ref={body} className={css.body}>
              <GuardsForms value={false}>{children}</GuardsForms>
            </div>
          </Dialog.Popup>
        </Dialog.Viewport>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
