// Small drawings of numbers: how full something is, and how it went over time. The numbers stand beside them as text.
import css from './meter.module.css'

export function Meter({ label, part, text }: { label: string; part: number; text: string }) {
  const width = Math.max(0, Math.min(1, part)) * 100
  const tone = part > 0.9 ? css.bad : part > 0.75 ? css.warn : css.ok
  return (
    <div className={css.meter}>
      <div className="row spread">
        <span>{label}</span>
        <span className="muted">{text}</span>
      </div>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" className={css.bar} aria-hidden="true">
        <rect width="100" height="4" className={css.back} />
        <rect width={width} height="4" className={tone} />
      </svg>
    </div>
  )
}

interface ChartProps {
  label: string
  /** From the oldest to the newest; null: nothing was reported. */
  values: readonly (number | null)[]
  /** What fills the height. */
  most: number
  text: string
}

const WIDTH = 240
const HEIGHT = 48

export function Chart({ label, values, most, text }: ChartProps) {
  const step = WIDTH / Math.max(1, values.length - 1)
  const y = (value: number) =>
    HEIGHT - 2 - (Math.min(value, most) / Math.max(most, 1e-9)) * (HEIGHT - 4)
  let pen = false
  const line = values
    .map((value, n) => {
      if (value === null) {
        pen = false
        return ''
      }
      const word = `${pen ? 'L' : 'M'}${(n * step).toFixed(1)} ${y(value).toFixed(1)}`
      pen = true
      return word
    })
    .join('')
  return (
    <figure className={css.chart}>
      <figcaption className="row spread">
        <span>{label}</span>
        <span className="muted">{text}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        className={css.plot}
        role="img"
        aria-label={`${label} over time, now ${text}`}
      >
        <path d={`M0 ${HEIGHT - 1}H${WIDTH}`} className={css.axis} />
        <path d={line} className={css.line} />
      </svg>
    </figure>
  )
}
