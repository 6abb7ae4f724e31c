// The frame of a page: its heading (focused after a change of route), the browser's title, and sections.
import { createContext, type ReactNode, useContext, useEffect, useRef } from 'react'
import css from './page.module.css'

let isFirst = true

/** Sets the browser's title; the newest page wins. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Berth`
  }, [title])
}

const InPage = createContext(false)

interface FrameProps {
  title?: string
  children: ReactNode
}

/** The margins of a page, for what is shown in its place: loading, errors. Inside a page it adds nothing. */
export function PageFrame({ title, children }: FrameProps) {
  if (useContext(InPage)) return children
  return title ? <Page title={title}>{children}</Page> : <div className={css.page}>{children}</div>
}

interface PageProps {
  /** For the browser's tab; defaults to the heading. */
  title: string
  heading?: ReactNode
  /** Breadcrumbs above the heading. */
  trail?: ReactNode
  /** Beside the heading. */
  actions?: ReactNode
  /** Below the heading. */
  facts?: ReactNode
  children: ReactNode
}

export function Page({ title, heading, trail, actions, facts, children }: PageProps) {
  const ref = useRef<HTMLHeadingElement>(null)
  useTitle(title)
  useEffect(() => {
    // the browser itself focuses the first page
    if (!isFirst && !location.hash) ref.current?.focus({ preventScroll: true })
    isFirst = false
  }, [])
  return (
    <div className={css.page}>
      <header className={css.head}>
        <div className={css.names}>
          {trail && <div className={css.trail}>{trail}</div>}
          <h1 ref={ref} tabIndex={-1}>
            {heading ?? title}
          </h1>
        </div>
        {actions && <div className={css.actions}>{actions}</div>}
        {facts && <div className={css.facts}>{facts}</div>}
      </header>
      <InPage value={true}>{children}</InPage>
    </div>
  )
}

interface SectionProps {
  title: string
  actions?: ReactNode
  isDanger?: boolean
  /** Without a frame, for content that has its own. */
  isBare?: boolean
  children: ReactNode
}

export function Section({ title, actions, isDanger, isBare, children }: SectionProps) {
  return (
    <section className={css.section}>
      <div className="row spread">
        <h2>{title}</h2>
        {actions && <div className="row">{actions}</div>}
      </div>
      <div className={isBare ? css.bare : `${css.card} ${isDanger ? css.danger : ''}`}>
        {children}
      </div>
    </section>
  )
}

/** Names and values: <Facts of={[['Server', 'fra-1']]} /> */
export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className={css.list}>
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
