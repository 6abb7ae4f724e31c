// Short notices of what just happened. Screen readers announce them, they disappear, and no error appears only here.
import { useStore } from '../stores.ts'
import { onDemand } from './loading/on-demand.tsx'
import { said } from './overlays/notices.ts'

const Toaster = onDemand(() => import('./overlays/toaster.tsx'), true)

export function say(text: string): void {
  said.set({ text, n: said.get().n + 1 })
}

/** Nothing is loaded before the first notice. */
export function Toasts() {
  const { n } = useStore(said)
  if (n === 0) return null
  return <Toaster />
}
