// Single-key shortcuts. They are off while the user types, and a user can turn them off. An open page adds its own.
import { useEffect, useRef } from 'react'
import { createStore, remembered } from '../stores.ts'

const kept = remembered('berth-shortcuts')
export const shortcutsOn = createStore(kept.get() !== 'off')

export function switchShortcuts(isOn: boolean): void {
  kept.set(isOn ? null : 'off')
  shortcutsOn.set(isOn)
}

const SEQUENCE_MS = 1_200
type Keys = Record<string, () => void>
const layers: Keys[] = []
let first = ''
let firstAt = 0

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

function find(key: string): (() => void) | undefined {
  return layers.findLast((keys) => keys[key])?.[key]
}

function onKey(event: KeyboardEvent): void {
  if (!shortcutsOn.get() || event.defaultPrevented) return
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
  if (document.querySelector('[role="dialog"], [role="menu"]')) return
  const both = Date.now() - firstAt < SEQUENCE_MS ? `${first} ${event.key}` : ''
  const run = find(both) ?? find(event.key)
  first = event.key
  firstAt = Date.now()
  if (!run) return
  event.preventDefault()
  first = ''
  run()
}

/** `keys` may change with each render; the newest apply. */
export function useShortcuts(keys: Keys): void {
  const ref = useRef(keys)
  ref.current = keys
  useEffect(() => {
    const layer: Keys = new Proxy({}, { get: (_none, key) => ref.current[String(key)] })
    layers.push(layer)
    if (layers.length === 1) addEventListener('keydown', onKey)
    return () => {
      layers.splice(layers.indexOf(layer), 1)
      if (layers.length === 0) removeEventListener('keydown', onKey)
    }
  }, [])
}

/** j and k move between rows; Enter follows the first link of a row. */
export function walkRows(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
  const at = rows.findIndex((row) => row.contains(document.activeElement))
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step
  rows[next]?.querySelector<HTMLElement>('a, button')?.focus()
}

export const focusFilter = (): void =>
  document.querySelector<HTMLInputElement>('[data-filter]')?.focus()
