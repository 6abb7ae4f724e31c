// Redirects once. The router's own component redirects at every render, also while the target page is loading.
import { useRouter } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'

export function Redirect({ to, next }: { to: string; next?: string }) {
  const { history } = useRouter()
  const path = useRef(next ? `${to}?next=${encodeURIComponent(next)}` : to)
  useEffect(() => history.replace(path.current), [history])
  return null
}
