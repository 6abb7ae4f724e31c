// The load of a server now and over time, and the share of each environment.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { trpc } from '../../api.ts'
import { Chart } from '../../components/meter.tsx'
import { Section } from '../../components/page.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { bytes } from '../../format.ts'
import css from './server.module.css'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** `ms` is the length of the span, `stepMs` the distance between its points. */
const SPANS = {
  hour: { words: 'Last hour', ago: '1 hour ago', ms: HOUR_MS, stepMs: MINUTE_MS },
  day: { words: 'Last day', ago: '24 hours ago', ms: 24 * HOUR_MS, stepMs: MINUTE_MS },
  month: { words: 'Last month', ago: '30 days ago', ms: 720 * HOUR_MS, stepMs: HOUR_MS },
} as const
type Span = keyof typeof SPANS
/** No event reports a new measurement; agents take one a minute. */
const AGAIN_MS = 30_000

const FIRST: Span = 'day'

export const usageOptions = (id: number, span: Span = FIRST) =>
  trpc.server.usage.queryOptions({ server_id: id, span })

export function ServerCharts({ id }: { id: number }) {
  const [span, setSpan] = useState<Span>(FIRST)
  const query = useQuery({
    ...usageOptions(id, span),
    refetchInterval: AGAIN_MS,
    placeholderData: (before) => before,
  })
  const usage = query.data
  if (!usage?.latest) return null
  const { latest, points, environments } = usage
  const { ms, stepMs, ago } = SPANS[usage.span]
  const to = Math.max(Date.parse(latest.at), query.dataUpdatedAt)
  const frame = { from: to - ms, to, gapMs: 2.5 * stepMs, ago }
  const of = (pick: (point: (typeof points)[number]) => number) =>
    points.map((point) => ({ at: Date.parse(point.at), value: pick(point) }))
  return (
    <Section
      title="Use"
      actions={
        <select
          aria-label="Span of time"
          value={span}
          onChange={(event) => setSpan(event.currentTarget.value as Span)}
        >
          {Object.entries(SPANS).map(([value, { words }]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      }
    >
      <div className={css.charts}>
        <Chart
          label="Processors"
          {...frame}
          points={of((p) => p.cpu_percent)}
          most={100}
          text={`${latest.cpu_percent.toFixed(0)} %`}
        />
        <Chart
          label="Memory"
          {...frame}
          points={of((p) => p.memory_used_bytes)}
          most={latest.memory_bytes}
          text={`${bytes(latest.memory_used_bytes)} of ${bytes(latest.memory_bytes)}`}
        />
        <Chart
          label="Disk"
          {...frame}
          points={of((p) => p.disk_used_bytes)}
          most={latest.disk_bytes}
          text={`${bytes(latest.disk_bytes - latest.disk_used_bytes)} of ${bytes(latest.disk_bytes)} free`}
        />
      </div>
      <p className="muted small">
        Measured <Time at={latest.at} />.
      </p>
      {environments.length > 0 && (
        <Table label="Use by environment" head={['Environment', 'Processors', 'Memory', 'Disk']}>
          {environments.map((e) => (
            <Row key={e.id}>
              <Cell of="Environment">
                <Link to="/environments/$id" params={{ id: String(e.id) }}>
                  {e.identifier}
                </Link>
              </Cell>
              <Cell of="Processors">{e.cpu_percent.toFixed(1)} %</Cell>
              <Cell of="Memory">{bytes(e.memory_bytes)}</Cell>
              <Cell of="Disk">{bytes(e.disk_bytes)}</Cell>
            </Row>
          ))}
        </Table>
      )}
    </Section>
  )
}
