// Short notices of what just happened. Screen readers announce them, they disappear, and no error appears only here.
import { createStore, useStore } from '../stores.ts'
import css from './toast.module.css'

const SHOWN_MS = 6_000
const said = createStore<{ text: string; n: number }>({ text: '', n: 0 })
let timer: ReturnType<typeof setTimeout> | undefined

export function say(text: string): void {
  said.set({ text, n: said.get().n + 1 })
  clearTimeout(timer)
  timer = setTimeout(() => said.set({ text: '', n: said.get().n }), SHOWN_MS)
}

export function Toasts() {
  const { text } = useStore(said)
  return (
    <div role="status" className={text ? css.toast : css.none}>
      {text}
    </div>
  )
}
