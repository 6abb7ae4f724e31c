// The tab's icon shows the state of the open deployment.
import { useEffect } from 'react'

const COLOURS: Record<string, string> = {
  queued: '#6b7686',
  running: '#2f7cf6',
  succeeded: '#1d9a57',
  failed: '#d8383f',
  canceled: '#6b7686',
}
const MARKS: Record<string, string> = {
  queued: 'M16 9v7l5 3',
  running: 'M16 7a9 9 0 0 1 0 18',
  succeeded: 'm9 17 5 5 9-11',
  failed: 'm10 10 12 12m0-12-12 12',
  canceled: 'M9 16h14',
}

const draw = (status: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${COLOURS[status]}"/><path d="${MARKS[status]}" fill="none" stroke="#fff" stroke-width="3.5" stroke-linecap="round" stroke-linejoin="round"/></svg>`

/** Undefined shows Berth's own icon. */
export function useFavicon(status: string | undefined): void {
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]')
    if (!link || !status || !COLOURS[status]) return
    link.href = `data:image/svg+xml,${encodeURIComponent(draw(status))}`
    return () => {
      link.href = '/favicon.svg'
    }
  }, [status])
}
