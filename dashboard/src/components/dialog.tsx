// A dialog that confirms or takes a short form. The component library is loaded when the first one opens.
import { lazy, Suspense, useState } from 'react'
import type { DialogProps } from './overlays/modal.tsx'

const Modal = lazy(() => import('./overlays/modal.tsx'))

export function Dialog(props: DialogProps) {
  const [opener] = useState(() => document.activeElement)
  return (
    <Suspense fallback={null}>
      <Modal {...props} opener={opener} />
    </Suspense>
  )
}
