// A relative time, with the exact moment on hover and for copying. All of them share one ticker.
import { useSyncExternalStore } from 'react'
import { ago, clock } from '../format.ts'

const listeners = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    if (document.hidden) return
    now = Date.now()
    for (const report of listeners) report()
  }, 1_000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

const current = (): number => {
  if (!timer) now = Date.now()
  return now
}

export const useNow = (): number => useSyncExternalStore(subscribe, current)

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const hour = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' })

export function Time({ at }: { at: string }) {
  const then = Date.parse(at)
  const words = useSyncExternalStore(subscribe, () => ago(then, current()))
  return (
    <time dateTime={at} title={exact.format(then)}>
      {words}
    </time>
  )
}

/** An absolute time: 09:02 today, with the date otherwise. */
export function Moment({ at }: { at: string }) {
  const then = new Date(at)
  const isToday = then.toDateString() === new Date(useNow()).toDateString()
  return (
    <time dateTime={at} title={exact.format(then)}>
      {isToday ? hour.format(then) : day.format(then)}
    </time>
  )
}

/** Elapsed time: 0:43. */
export function Clock({ since }: { since: string }) {
  const then = Date.parse(since)
  const words = useSyncExternalStore(subscribe, () => clock(current() - then))
  return <span>{words}</span>
}
