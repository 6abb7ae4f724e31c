// Bars of deployments, newest at the right: the height is the duration, the colour is the outcome.
import { Link } from '@tanstack/react-router'
import css from './charts.module.css'

export interface Bar {
  tone: 'ok' | 'busy' | 'warn' | 'bad' | 'none'
  /** Between 0 and 1; a bar is always tall enough to see. */
  height: number
  /** What a reader hears and a pointer shows: "813 succeeded in 1m 18s". */
  label: string
  href: string
}

/** `bars` are oldest first. */
export function Bars({ label, bars }: { label: string; bars: readonly Bar[] }) {
  return (
    <ul className={css.bars} aria-label={label}>
      {bars.toReversed().map((bar) => (
        <li key={bar.href}>
          <Link to={bar.href} className={css.slot} aria-label={bar.label} title={bar.label}>
            <span
              className={`${css.pillar} ${css[bar.tone]}`}
              style={{ height: `${8 + 92 * Math.max(0, Math.min(1, bar.height))}%` }}
            />
          </Link>
        </li>
      ))}
    </ul>
  )
}
