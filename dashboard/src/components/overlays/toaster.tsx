// Shows notices with Base UI: a polite live region, at most three at once; they wait while the pointer is over them.
import { Toast } from '@base-ui/react/toast'
import { useEffect } from 'react'
import { Icon } from '../icon.tsx'
import { said } from './notices.ts'
import css from './toast.module.css'

const SHOWN_MS = 6_000
/** The number of the newest notice that was shown. */
let last = 0

export default function Toaster() {
  return (
    <Toast.Provider timeout={SHOWN_MS}>
      <Follow />
      <Toast.Portal>
        <Toast.Viewport className={css.place ?? ''}>
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  )
}

function Follow() {
  const { add } = Toast.useToastManager()
  useEffect(() => {
    const take = () => {
      const { text, n } = said.get()
      if (n === last) return
      last = n
      add({ title: text })
    }
    take()
    return said.subscribe(take)
  }, [add])
  return null
}

function List() {
  const { toasts } = Toast.useToastManager()
  return toasts.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      // its own role would be "dialog", which it is not: it holds no choice; only a dialog can be modal or not
      role="group"
      render={({ 'aria-modal': _, ...props }) => <div {...props} />}
      className={css.toast ?? ''}
    >
      <Toast.Title render={<p />} className={css.text ?? ''} />
      {/* always shown, so always in the tree of readers */}
      <Toast.Close className={css.close ?? ''} aria-label="Dismiss" aria-hidden={false}>
        <Icon name="cross" size={12} />
      </Toast.Close>
    </Toast.Root>
  ))
}
