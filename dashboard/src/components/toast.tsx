// Short notices of what just happened. Screen readers announce them, they disappear, and no error appears only here.
import { lazy, Suspense } from 'react'
import { createStore, useStore } from '../stores.ts'

const Toaster = lazy(() => import('./overlays/toaster.tsx'))

/** The newest notice and its number; the list on the screen keeps the earlier ones. */
export const said = createStore<{ text: string; n: number }>({ text: '', n: 0 })

export function say(text: string): void {
  said.set({ text, n: said.get().n + 1 })
}

/** Nothing is loaded before the first notice. */
export function Toasts() {
  const { n } = useStore(said)
  if (n === 0) return null
  return (
    <Suspense fallback={null}>
      <Toaster />
    </Suspense>
  )
}
