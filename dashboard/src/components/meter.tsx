// Small charts: how full something is, and how it changed over time. The numbers appear beside them as text.
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

interface Point {
  at: number
  value: number
}

interface ChartProps {
  label: string
  /** Oldest first. */
  points: readonly Point[]
  /** The start of the time axis. */
  from: number
  to: number
  /** Points further apart than this are not joined, because nothing was reported between them. */
  gapMs: number
  /** The value at full height. */
  most: number
  text: string
  /** How long ago the left edge is. */
  ago: string
}

const WIDTH = 240
const HEIGHT = 48
const PLACES = 120

/** Groups of points that are joined by a line. */
function runs(points: readonly Point[], gapMs: number): Point[][] {
  const all: Point[][] = []
  for (const point of points) {
    const last = all.at(-1)
    const before = last?.at(-1)
    if (last && before && point.at - before.at <= gapMs) last.push(point)
    else all.push([point])
  }
  return all
}

/** Thins the points to what this width can show: points at one position become their mean. */
function thinned(points: readonly Point[], from: number, to: number): Point[] {
  const places = new Map<number, Point[]>()
  for (const point of points) {
    if (point.at < from) continue
    const place = Math.floor((PLACES * (point.at - from)) / Math.max(1, to - from))
    places.set(place, [...(places.get(place) ?? []), point])
  }
  const mean = (all: Point[], pick: (p: Point) => number) =>
    all.reduce((sum, p) => sum + pick(p), 0) / all.length
  return [...places.values()].map((all) => ({
    at: mean(all, (p) => p.at),
    value: mean(all, (p) => p.value),
  }))
}

export function Chart({ label, points, from, to, gapMs, most, text, ago }: ChartProps) {
  const x = ({ at }: Point) => (WIDTH * (at - from)) / Math.max(1, to - from)
  const y = ({ value }: Point) =>
    HEIGHT - 2 - (Math.min(value, most) / Math.max(most, 1e-9)) * (HEIGHT - 4)
  const shown = runs(thinned(points, from, to), Math.max(gapMs, (2 * (to - from)) / PLACES))
  // a single point is drawn as a short line, so that it is visible
  const line = (run: Point[]) =>
    `M${run.map((p) => `${x(p).toFixed(1)} ${y(p).toFixed(1)}`).join('L')}h${run.length > 1 ? 0 : 1}`
  const under = (run: Point[]) => {
    const [first, last] = [run[0], run.at(-1)]
    return first && last ? `${line(run)}V${HEIGHT}H${x(first).toFixed(1)}Z` : ''
  }
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
        <path d={shown.map(under).join('')} className={css.area} />
        <path d={shown.map(line).join('')} className={css.line} />
      </svg>
      <div className={`row spread muted ${css.ends}`} aria-hidden="true">
        <span>{ago}</span>
        <span>now</span>
      </div>
    </figure>
  )
}
