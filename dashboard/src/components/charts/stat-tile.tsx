// A figure with its name, for a row of figures on top of a page.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import css from './charts.module.css'

interface StatTileProps {
  label: string
  value: ReactNode
  /** A second line: what the figure is compared with, or when it was measured. */
  hint?: ReactNode
  tone?: 'ok' | 'warn' | 'bad' | undefined
  /** Opens the page that explains the figure. */
  to?: string | undefined
}

export function StatTile({ label, value, hint, tone, to }: StatTileProps) {
  const content = (
    <>
      <span className={css.statLabel}>{label}</span>
      <span className={`${css.statValue} ${tone ? css[`${tone}Text`] : ''}`}>{value}</span>
      {hint && <span className={css.statHint}>{hint}</span>}
    </>
  )
  if (!to) return <div className={css.stat}>{content}</div>
  return (
    <Link to={to} className={css.stat}>
      {content}
    </Link>
  )
}

/** Tiles side by side; two in a row on a phone. */
export const Stats = ({ children }: { children: ReactNode }) => (
  <div className={css.stats}>{children}</div>
)
