// How busy a server is and was, and what each environment takes of it.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { trpc } from '../api.ts'
import { Chart } from '../components/meter.tsx'
import { Section } from '../components/page.tsx'
import { Cell, Row, Table } from '../components/table.tsx'
import { Time } from '../components/time.tsx'
import { bytes } from '../words.ts'
import css from './server.module.css'

const SPANS = { hour: 'Last hour', day: 'Last day', month: 'Last month' } as const
type Span = keyof typeof SPANS
/** Nothing tells of a new measurement; agents take one a minute. */
const AGAIN_MS = 30_000
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

export function ServerCharts({ id }: { id: number }) {
  const [span, setSpan] = useState<Span>('day')
  const query = useQuery({
    ...trpc.server.usage.queryOptions({ server_id: id, span }),
    refetchInterval: AGAIN_MS,
    placeholderData: (before) => before,
  })
  const usage = query.data
  if (!usage?.latest) return null
  const { latest, points, environments } = usage
  const step = span === 'month' ? HOUR_MS : MINUTE_MS
  /** Where the server said nothing, the line has a gap. */
  const of = (pick: (point: (typeof points)[number]) => number): (number | null)[] =>
    points.flatMap((point, n) => {
      const before = points[n - 1]
      const isGap = before && Date.parse(point.at) - Date.parse(before.at) > 2.5 * step
      return isGap ? [null, pick(point)] : [pick(point)]
    })
  return (
    <Section
      title="Use"
      actions={
        <select
          aria-label="Span of time"
          value={span}
          onChange={(event) => setSpan(event.currentTarget.value as Span)}
        >
          {Object.entries(SPANS).map(([value, words]) => (
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
          values={of((p) => p.cpu_percent)}
          most={100}
          text={`${latest.cpu_percent.toFixed(0)} %`}
        />
        <Chart
          label="Memory"
          values={of((p) => p.memory_used_bytes)}
          most={latest.memory_bytes}
          text={`${bytes(latest.memory_used_bytes)} of ${bytes(latest.memory_bytes)}`}
        />
        <Chart
          label="Disk"
          values={of((p) => p.disk_used_bytes)}
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
