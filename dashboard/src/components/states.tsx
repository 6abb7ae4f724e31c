// The other states of a page: loading (a skeleton after 150 ms), an error with its number and a retry button, and empty
// with what to do next.
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { type Problem, problemOf } from '../api.ts'
import { capital } from '../format.ts'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import { PageFrame } from './page.tsx'
import css from './states.module.css'

const QUIET_MS = 150

export function Skeleton({ lines = 3 }: { lines?: number }) {
  const [isShown, show] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => show(true), QUIET_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <PageFrame>
      <div role="status" className={css.skeleton} data-loading="">
        {isShown && (
          <>
            <span className="visually-hidden">Loading…</span>
            {Array.from({ length: lines }, (_, n) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: bars without identity
              <span key={n} className={css.bar} />
            ))}
          </>
        )}
      </div>
    </PageFrame>
  )
}

export function ErrorState({
  what,
  error,
  again,
}: {
  what: string
  error: unknown
  again(): void
}) {
  const problem = problemOf(error)
  return (
    <PageFrame title={capital(what.replace(/^The /, ''))}>
      <div role="alert" className={css.error}>
        <p className={css.title}>
          {what} could not be loaded{problem.requestId ? ` (${problem.requestId})` : ''}.
        </p>
        <p>{problem.message}</p>
        <Button onClick={again}>Try again</Button>
      </div>
    </PageFrame>
  )
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={css.empty}>
      <p className={css.title}>{title}</p>
      {children}
    </div>
  )
}

/** A page or a part of it that this user may not open; the answer for both is the same. */
export function NoAccess({ children }: { children?: ReactNode }) {
  return <Empty title="Not found, or you don't have access">{children}</Empty>
}

/** Something that must be connected first, such as a server. */
export function Offline({ what, children }: { what: string; children?: ReactNode }) {
  return (
    <Empty title={`${what} is offline.`}>
      {children ?? <p>This page updates when it is back.</p>}
    </Empty>
  )
}

/** One sentence across the page, above its heading. */
export function Banner({ children }: { children: ReactNode }) {
  return (
    <div className={css.banner} role="status">
      {children}
    </div>
  )
}

type NoteKind = 'info' | 'warn' | 'bad' | 'ok'
const NOTE_ICONS = { info: 'info', warn: 'warning', bad: 'cross', ok: 'check' } as const

export function Note({ kind = 'info', children }: { kind?: NoteKind; children: ReactNode }) {
  return (
    <div className={`${css.note} ${css[kind]}`}>
      <Icon name={NOTE_ICONS[kind]} />
      <div className={css.text}>{children}</div>
    </div>
  )
}

/** A message of the server or the agent; text between backticks is code. */
export function Message({ of }: { of: string }) {
  return of.split('`').map((part, n) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text
    n % 2 === 1 ? <code key={n}>{part}</code> : <span key={n}>{part}</span>,
  )
}

/** A page whose heading is its subject's name, until that is known. */
export const unnamed = (kind: string, state: ReactNode): ReactNode => (
  <>
    <h1 className="visually-hidden">{kind}</h1>
    {state}
  </>
)

interface Answer<T> {
  data: T | undefined
  error: unknown
  isError: boolean
  refetch(): unknown
}

interface LoadedProps<T> {
  query: Answer<T>
  /** Parts of the same page. It appears when they are there too, so that none pushes another away. */
  also?: readonly { isLoading: boolean }[]
  /** "Projects", for the message that they could not be loaded. */
  what: string
  lines?: number
  /** One page for "not found" and "no access". */
  missing?: ReactNode
  /** Puts the loading and the error state into the layout of the page. */
  frame?(state: ReactNode): ReactNode
  children(data: T): ReactNode
}

const isMissing = ({ status }: Problem): boolean => status === 404

/** Earlier data stays visible during a refetch, even a failed one; the strip in the header reports that. */
export function Loaded<T>(props: LoadedProps<T>) {
  const { query, also = [], what, lines, missing, frame = (state) => state, children } = props
  // later queries do not hide the page again
  const isShown = useRef(false)
  isShown.current =
    query.data !== undefined && (isShown.current || also.every((part) => !part.isLoading))
  if (query.isError && missing !== undefined && isMissing(problemOf(query.error))) return missing
  if (query.data !== undefined && isShown.current) return children(query.data)
  if (query.isError && problemOf(query.error).status === 403) {
    const { message } = problemOf(query.error)
    return frame(
      <PageFrame>
        <NoAccess>
          <p>{message}</p>
        </NoAccess>
      </PageFrame>,
    )
  }
  if (query.isError) {
    return frame(<ErrorState what={what} error={query.error} again={() => void query.refetch()} />)
  }
  return frame(<Skeleton {...(lines === undefined ? {} : { lines })} />)
}
