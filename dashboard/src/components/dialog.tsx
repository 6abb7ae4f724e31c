// A dialog that confirms or takes a short form. The component library is loaded when the first one opens.
import { lazy, type ReactNode, Suspense, useState } from 'react'

const Modal = lazy(() => import('./overlays/modal.tsx'))

export interface DialogProps {
  title: string
  onClose(): void
  children: ReactNode
  /** The user cannot dismiss it; used for the end of the session. */
  isFirm?: boolean
}

export function Dialog(props: DialogProps) {
  const [opener] = useState(() => document.activeElement)
  return (
    <Suspense fallback={null}>
      <Modal {...props} opener={opener} />
    </Suspense>
  )
}
