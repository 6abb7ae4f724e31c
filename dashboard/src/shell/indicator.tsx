// Whether the page is live: a word in the header, and an amber strip with a countdown when it is not.
import { useEffect, useState } from 'react'
import { Button } from '../components/button.tsx'
import { Icon } from '../components/icon.tsx'
import { connection, reconnectNow } from '../live/connection.ts'
import { useStore } from '../stores.ts'
import css from './indicator.module.css'

/** A shorter interruption is not shown. */
const PATIENCE_MS = 1_000
const STALE_MS = 30_000

function useNow(isOn: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isOn) return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [isOn])
  return now
}

function useLoss(): { isLost: boolean; seconds: number; isStale: boolean; isTrying: boolean } {
  const { state, lostAt, retryAt } = useStore(connection)
  const now = useNow(lostAt > 0)
  return {
    isLost: lostAt > 0 && state !== 'live' && now - lostAt > PATIENCE_MS,
    seconds: Math.max(0, Math.ceil((retryAt - now) / 1_000)),
    isStale: lostAt > 0 && now - lostAt > STALE_MS,
    isTrying: state === 'connecting' || retryAt === 0,
  }
}

export function LiveBadge() {
  const { state } = useStore(connection)
  const { isLost } = useLoss()
  const word = isLost ? 'Not live' : state === 'live' ? 'Live' : 'Connecting'
  return (
    <span
      className={`${css.badge} ${isLost ? css.lost : state === 'live' ? css.live : ''}`}
      data-tip={state === 'live' ? 'Live: changes appear at once' : undefined}
    >
      <Icon name={isLost ? 'hollow' : 'dot'} size={12} />
      <span className={isLost ? css.word : css.quiet}>{word}</span>
    </span>
  )
}

export function LiveStrip() {
  const { isLost, seconds, isStale, isTrying } = useLoss()
  return (
    <div role="status" className={isLost ? css.strip : undefined}>
      {isLost && (
        <>
          <span>
            Not live, reconnecting
            <span aria-hidden="true">{isTrying ? '…' : ` (${seconds} s)`}</span>
            {isStale && '. This page may be out of date.'}
          </span>
          <Button kind="plain" small onClick={reconnectNow}>
            Try now
          </Button>
        </>
      )}
    </div>
  )
}
