// Light, dark, or the system's theme. Remembered per browser; the script in index.html applies it before the first
// paint.
import { createStore, remembered } from './stores.ts'

export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const kept = remembered('berth-theme')
const read = (): Theme => {
  const value = kept.get()
  return value === 'light' || value === 'dark' ? value : 'system'
}

export const theme = createStore<Theme>(read())

export function chooseTheme(next: Theme): void {
  kept.set(next === 'system' ? null : next)
  if (next === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = next
  theme.set(next)
}
