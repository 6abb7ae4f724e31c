// Announces phases and the result to screen readers: at most one sentence in five seconds, the newest wins.
import { useEffect, useRef, useState } from 'react'
import { wordOf } from '../../components/status.tsx'
import type { Task } from '../../data.ts'
import { taskName } from './task-table.tsx'

const QUIET_MS = 5_000

export function Announcer({ task: t }: { task: Task }) {
  const phase = t.phases?.find((p) => p.status === 'running')?.title
  const words =
    t.finished_at === null
      ? phase
        ? `${phase} is running.`
        : `${taskName(t)} is ${t.status}.`
      : `${taskName(t)}: ${wordOf(t.status)}.`
  const [said, say] = useState('')
  const saidAt = useRef(0)
  const isFirst = useRef(true)
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false // the initial state is on the page already
      return
    }
    const report = () => {
      saidAt.current = Date.now()
      say(words)
    }
    const timer = setTimeout(report, Math.max(0, saidAt.current + QUIET_MS - Date.now()))
    return () => clearTimeout(timer)
  }, [words])
  return (
    <p role="status" className="visually-hidden" data-announced="">
      {said}
    </p>
  )
}
