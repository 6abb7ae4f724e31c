// Keeps a page up to date: follows the current organization's events, and refetches everything after a reconnect.
// react-query itself refetches when the tab becomes visible or the browser comes online.
import { useEffect } from 'react'
import { api, queryClient, trpc } from '../api.ts'
import { whenRefused, whenReopened } from './connection.ts'
import { applyEvent } from './events.ts'
import type { LiveMessage } from './touches.ts'

const AGAIN_MS = 3_000

export function useLive(organizationId: number | undefined): void {
  useEffect(() => {
    const stops = [
      whenReopened(() => void queryClient.invalidateQueries()),
      whenRefused(() => void queryClient.invalidateQueries(trpc.me.queryFilter())),
    ]
    return () => {
      for (const stop of stops) stop()
    }
  }, [])
  useEffect(() => {
    if (organizationId === undefined) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let subscription: { unsubscribe(): void } | undefined
    const follow = () => {
      subscription = api.organization.events.subscribe(
        { organization_id: organizationId },
        {
          onData: (message) => applyEvent(message.data as LiveMessage),
          onError: () => {
            // refused: access ended, or the server is busy. A refetch shows the reason.
            void queryClient.invalidateQueries()
            timer = setTimeout(follow, AGAIN_MS)
          },
        },
      )
    }
    follow()
    return () => {
      clearTimeout(timer)
      subscription?.unsubscribe()
    }
  }, [organizationId])
}
