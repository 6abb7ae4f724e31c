// Values over time. The drawing is loaded on demand; its place is reserved, so that nothing moves when it arrives. A
// table holds the same values for the keyboard and for readers.
import { useState } from 'react'
import { onDemand } from '../loading/on-demand.tsx'
import css from './charts.module.css'
import type { ChartProps, Series } from './series.ts'

export type { ChartProps, Series }

const Plot = onDemand(() => import('./plot.tsx'), true)
const MOST_ROWS = 60
const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** The last value of a series. */
const latest = (values: readonly (number | null)[]): number | null =>
  values.findLast((value) => value !== null) ?? null

export function Chart(props: ChartProps) {
  const { label, times, series, format, height = 160 } = props
  const [at, setAt] = useState<number | null>(null)
  const shown = (one: Series): string => {
    const value = at === null ? latest(one.values) : (one.values[at] ?? null)
    return value === null ? 'No data' : format(value)
  }
  const time = at === null ? undefined : times[at]
  return (
    <figure className={css.chart}>
      <figcaption className={css.caption}>
        <span className={css.chartLabel}>{label}</span>
        <span className={css.legend}>
          {series.map((one, n) => (
            <span key={one.label} className={css.entry}>
              <span className={`${css.swatch} ${css[one.tone ?? `series${n + 1}`]}`} />
              {series.length > 1 && <span className="muted">{one.label}</span>}
              <span className="numbers">{shown(one)}</span>
            </span>
          ))}
        </span>
      </figcaption>
      <div className={css.plot} style={{ height }} aria-hidden="true">
        {times.length === 0 ? (
          <p className={css.nothing}>No data in this period</p>
        ) : (
          <Plot {...props} height={height} onCursor={setAt} />
        )}
      </div>
      <div className={css.foot}>
        <ChartTable {...props} />
        <span aria-hidden="true" className="numbers">
          {time !== undefined && when.format(time)}
        </span>
      </div>
    </figure>
  )
}

/** At most 60 rows, evenly spread; built only when it is open. */
function ChartTable({ label, times, series, format }: ChartProps) {
  const [isOpen, setOpen] = useState(false)
  const step = Math.max(1, Math.ceil(times.length / MOST_ROWS))
  return (
    <details className={css.data} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        Show as table<span className="visually-hidden">: {label}</span>
      </summary>
      {isOpen && (
        <div className={css.scroll}>
          <table aria-label={label}>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {series.map((one) => (
                  <th key={one.label} scope="col">
                    {one.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((time, n) =>
                n % step === 0 ? (
                  <tr key={time}>
                    <th scope="row">{when.format(time)}</th>
                    {series.map((one) => {
                      const value = one.values[n] ?? null
                      return <td key={one.label}>{value === null ? '–' : format(value)}</td>
                    })}
                  </tr>
                ) : null,
              )}
            </tbody>
          </table>
        </div>
      )}
    </details>
  )
}
