// The one socket and its state, for components that show whether the page is live. It reconnects with back-off and
// jitter (0.5 s to 15 s), and immediately when the machine comes online or the tab becomes visible.
import { createWSClient } from '@trpc/client'
import { createStore } from '../stores.ts'

interface Connection {
  state: 'live' | 'connecting' | 'waiting'
  /** When the page lost the connection; 0 while it is live. */
  lostAt: number
  /** When the next attempt begins. */
  retryAt: number
}

export const connection = createStore<Connection>({ state: 'connecting', lostAt: 0, retryAt: 0 })

const FIRST_MS = 500
const MOST_MS = 15_000
const PING_MS = 20_000
const PONG_MS = 5_000
/** The server's close code for "access denied". */
const NOT_ADMITTED = 4401

const onReopened = new Set<() => void>()
const onRefused = new Set<() => void>()

/** Called after a reconnect: what the page missed is in the tables. */
export function whenReopened(listener: () => void): () => void {
  onReopened.add(listener)
  return () => onReopened.delete(listener)
}

export function whenRefused(listener: () => void): () => void {
  onRefused.add(listener)
  return () => onRefused.delete(listener)
}

/** The delay before attempt number `attempt`, which counts from 1. */
function delayOf(attempt: number, chance: number): number {
  const most = Math.min(MOST_MS, FIRST_MS * 2 ** Math.max(0, attempt - 1))
  return Math.round(most * (0.6 + 0.4 * chance))
}

let tries = 0
let wasOpen = false
let wake = (): void => {}

/** The wait is here because the client's own back-off cannot be cut short. */
async function address(): Promise<string> {
  if (tries > 0) {
    const delay = delayOf(tries, Math.random())
    const { lostAt } = connection.get()
    connection.set({ state: 'waiting', lostAt: lostAt || Date.now(), retryAt: Date.now() + delay })
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, delay)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
  tries += 1
  connection.set({ ...connection.get(), state: 'connecting', retryAt: 0 })
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/trpc`
}

export const socket = createWSClient({
  url: address,
  lazy: { enabled: true, closeMs: 10_000 },
  keepAlive: { enabled: true, intervalMs: PING_MS, pongTimeoutMs: PONG_MS },
  retryDelayMs: () => 0,
  onOpen: () => {
    tries = 0
    connection.set({ state: 'live', lostAt: 0, retryAt: 0 })
    if (wasOpen) for (const listener of onReopened) listener()
    wasOpen = true
  },
  onClose: (cause) => {
    tries = Math.max(1, tries)
    const { lostAt } = connection.get()
    connection.set({ state: 'waiting', lostAt: lostAt || Date.now(), retryAt: 0 })
    if (cause?.code === NOT_ADMITTED) for (const listener of onRefused) listener()
  },
})

/** Reconnects without waiting for the rest of the delay. */
export const reconnectNow = (): void => wake()

addEventListener('online', () => {
  // a socket of a lost network may look open for minutes
  socket.connection?.ws?.close()
  wake()
})
addEventListener('offline', () => socket.connection?.ws?.close())
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') wake()
})
