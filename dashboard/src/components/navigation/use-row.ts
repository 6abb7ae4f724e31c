// Keeps the open page of a row of links in view: on a phone the row scrolls.
import { useLocation } from '@tanstack/react-router'
import { type RefObject, useEffect, useRef } from 'react'

export function useRow(): RefObject<HTMLElement | null> {
  const ref = useRef<HTMLElement>(null)
  const { pathname, hash } = useLocation()
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page is open
  useEffect(() => {
    const row = ref.current
    const open = row?.querySelector<HTMLElement>('[aria-current]')
    if (!row || !open || row.scrollWidth <= row.clientWidth) return
    // the page itself stays where it is
    row.scrollLeft = open.offsetLeft - row.offsetLeft - (row.clientWidth - open.offsetWidth) / 2
  }, [pathname, hash])
  return ref
}
