// One tooltip for the whole page. An element asks for it with `data-tip`; the name of a button stays its `aria-label`.
// The component library is loaded when the first one is wanted.
import { useEffect, useState } from 'react'
import { onDemand } from './loading/on-demand.tsx'
import type { Tip } from './overlays/bubble.tsx'

const Bubble = onDemand(() => import('./overlays/bubble.tsx'), true)
/** A pointer that only passes shows nothing. */
const PATIENCE_MS = 350

const tipOf = (target: EventTarget | null): Tip | undefined => {
  const anchor = target instanceof Element ? target.closest<HTMLElement>('[data-tip]') : null
  return anchor ? { anchor, text: anchor.dataset.tip ?? '' } : undefined
}

/** The element under the pointer or with the visible focus, if it has a tip. */
function useTip(): [Tip | undefined, () => void] {
  const [tip, setTip] = useState<Tip>()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const want = (next: Tip | undefined, after: number) => {
      clearTimeout(timer)
      if (next && after > 0) timer = setTimeout(() => setTip(next), after)
      else setTip(next)
    }
    const over = (event: PointerEvent) => {
      if (event.pointerType === 'mouse') want(tipOf(event.target), PATIENCE_MS)
    }
    const focused = ({ target }: FocusEvent) => {
      if (target instanceof Element && target.matches(':focus-visible')) want(tipOf(target), 0)
    }
    const away = () => want(undefined, 0)
    addEventListener('pointerover', over)
    addEventListener('focusin', focused)
    addEventListener('focusout', away)
    addEventListener('pointerdown', away)
    return () => {
      clearTimeout(timer)
      removeEventListener('pointerover', over)
      removeEventListener('focusin', focused)
      removeEventListener('focusout', away)
      removeEventListener('pointerdown', away)
    }
  }, [])
  return [tip, () => setTip(undefined)]
}

export function Tooltips() {
  const [tip, hide] = useTip()
  if (!tip) return null
  return <Bubble tip={tip} onClose={hide} />
}
