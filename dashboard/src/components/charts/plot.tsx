// Draws a chart with uPlot. A canvas cannot use custom properties, so the colours are resolved when it is made, and it
// is made again when the theme changes.
import { useEffect, useRef, useState } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useStore } from '../../stores.ts'
import { theme } from '../../theme.ts'
import type { ChartProps } from './series.ts'

interface PlotProps extends ChartProps {
  height: number
  onCursor(at: number | null): void
}

/** The colour that a custom property has at this element. */
function colourAt(place: HTMLElement, name: string): string {
  const probe = place.appendChild(document.createElement('span'))
  probe.style.color = `var(${name})`
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

/** Counts changes of the theme, chosen here or by the system. */
function useThemeChanges(): string {
  const chosen = useStore(theme)
  const [isDark, setDark] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches)
  useEffect(() => {
    const media = matchMedia('(prefers-color-scheme: dark)')
    const changed = () => setDark(media.matches)
    media.addEventListener('change', changed)
    return () => media.removeEventListener('change', changed)
  }, [])
  return `${chosen} ${isDark}`
}

const hour = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const DAY_S = 86_400
/** Distances between lines of the grid, for bytes. */
const POWERS = Array.from({ length: 50 }, (_, n) => 2 ** n)

function options(place: HTMLElement, props: PlotProps): uPlot.Options {
  const { series, format, isBytes, max, height, syncKey, onCursor } = props
  const muted = colourAt(place, '--muted')
  const hairline = colourAt(place, '--border')
  const font = `12px ${getComputedStyle(place).fontFamily}`
  const axis = { stroke: muted, font, ticks: { show: false } }
  return {
    width: place.clientWidth,
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 6 },
      ...(syncKey ? { sync: { key: syncKey } } : {}),
    },
    scales: { y: { range: (_plot, _low, high) => [0, max ?? (high > 0 ? high * 1.1 : 1)] } },
    axes: [
      {
        ...axis,
        size: 20,
        space: 64,
        grid: { show: false },
        values: (_plot, splits, _n, _space, step) =>
          splits.map((s) => (step >= DAY_S ? day : hour).format(s * 1_000)),
      },
      {
        ...axis,
        size: 56,
        space: 32,
        ...(isBytes ? { incrs: POWERS } : {}),
        grid: { stroke: hairline, width: 1 },
        values: (_plot, splits) => splits.map(format),
      },
    ],
    series: [
      {},
      ...series.map((one, n) => {
        const stroke = colourAt(place, one.tone ? `--${one.tone}` : `--series-${n + 1}`)
        const isAlone = series.length === 1
        return {
          stroke,
          width: 1.5,
          points: { show: false },
          ...(isAlone ? { fill: stroke.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.1)') } : {}),
        }
      }),
    ],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  }
}

const data = ({ times, series }: Pick<ChartProps, 'times' | 'series'>): uPlot.AlignedData => [
  times.map((time) => time / 1_000),
  ...series.map((one) => [...one.values]),
]

export default function Plot(props: PlotProps) {
  const ref = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const newest = useRef(props)
  newest.current = props
  const look = useThemeChanges()
  const shape = props.series.map((one) => `${one.label} ${one.tone ?? ''}`).join('|')
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme and the lines decide what is drawn
  useEffect(() => {
    const place = ref.current
    if (!place) return
    const made = new uPlot(options(place, newest.current), data(newest.current), place)
    plot.current = made
    const observer = new ResizeObserver(() =>
      made.setSize({ width: place.clientWidth, height: newest.current.height }),
    )
    observer.observe(place)
    return () => {
      observer.disconnect()
      made.destroy()
      plot.current = undefined
    }
  }, [look, shape, props.height, props.max])
  const { times, series } = props
  useEffect(() => plot.current?.setData(data({ times, series })), [times, series])
  return <div ref={ref} />
}
