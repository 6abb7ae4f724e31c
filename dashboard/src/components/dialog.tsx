// A dialog that confirms or takes a short form. The component library is loaded when the first one opens.
import { useState } from 'react'
import { onDemand } from './loading/on-demand.tsx'
import type { DialogProps } from './overlays/modal.tsx'

const Modal = onDemand(() => import('./overlays/modal.tsx'))

export function Dialog(props: DialogProps) {
  const [opener] = useState(() => document.activeElement)
  return <Modal {...props} opener={opener} />
}
