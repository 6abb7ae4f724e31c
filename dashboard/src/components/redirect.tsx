// Goes elsewhere, once: the router's own component goes again at every render, also while the other page is being loaded.
import { useRouter } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'

export function Redirect({ to, next }: { to: string; next?: string }) {
  const { history } = useRouter()
  const path = useRef(next ? `${to}?next=${encodeURIComponent(next)}` : to)
  useEffect(() => history.replace(path.current), [history])
  return null
}
