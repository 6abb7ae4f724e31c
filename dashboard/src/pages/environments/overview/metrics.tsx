// Processor, memory, requests and response times of an environment over an hour, a day or a week. The range is part of the
// address, so that a link shows the same.
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { api } from '../../../api.ts'
import { Chart } from '../../../components/charts/chart.tsx'
import { Stats, StatTile } from '../../../components/charts/stat-tile.tsx'
import { Section } from '../../../components/page.tsx'
import { Empty, Loaded, Note } from '../../../components/states.tsx'
import type { Environment } from '../../../data.ts'
import { bytes } from '../../../format.ts'
import { metricsOptions, milliseconds, number, percent, type Range, rate } from './measures.ts'
import css from './overview.module.css'

type EnvironmentMetrics = Awaited<ReturnType<typeof api.environment.metrics.query>>

const RANGES = { hour: 'Hour', day: 'Day', week: 'Week' } as const

const isRange = (text: unknown): text is Range => typeof text === 'string' && text in RANGES

export function useRange(): Range {
  const { range } = useSearch({ strict: false }) as { range?: unknown }
  return isRange(range) ? range : 'hour'
}

export function Metrics({ environment: e }: { environment: Environment }) {
  const range = useRange()
  const query = useQuery({
    ...metricsOptions(e.id, range),
    // the last charts stay until the new ones are there
    placeholderData: (before) => before,
  })
  return (
    <Section title="Metrics" isBare actions={<RangeSwitch range={range} />}>
      <div className={css.metrics}>
        <Loaded query={query} what="Metrics" lines={6}>
          {(metrics) => <Measured environment={e} metrics={metrics} />}
        </Loaded>
      </div>
    </Section>
  )
}

function RangeSwitch({ range }: { range: Range }) {
  const navigate = useNavigate()
  const choose = (chosen: Range) =>
    void navigate({
      to: '.',
      search: (old: Record<string, unknown>) => ({ ...old, range: chosen }),
      replace: true,
      resetScroll: false,
    } as never)
  return (
    <fieldset className={css.ranges}>
      <legend className="visually-hidden">Range</legend>
      {(Object.keys(RANGES) as Range[]).map((one) => (
        <button
          key={one}
          type="button"
          className={css.range}
          aria-pressed={one === range}
          onClick={() => choose(one)}
        >
          {RANGES[one]}
        </button>
      ))}
    </fieldset>
  )
}

function Measured({
  environment: e,
  metrics: m,
}: {
  environment: Environment
  metrics: EnvironmentMetrics
}) {
  const isEmpty = m.points.every((p) => p.cpu_percent === null && p.requests === null)
  if (isEmpty) {
    return (
      <Empty title="No metrics yet">
        <p>{e.server.name} reports once a minute while the environment runs.</p>
      </Empty>
    )
  }
  const times = m.points.map((p) => Date.parse(p.at))
  const seconds = m.step_seconds
  const of = (pick: (point: EnvironmentMetrics['points'][number]) => number | null) =>
    m.points.map(pick)
  const perSecond = (n: number | null) => (n === null ? null : n / seconds)
  const frame = { times, syncKey: `environment-${e.id}` }
  return (
    <>
      <Tiles metrics={m} />
      <div className={css.charts}>
        <Chart
          {...frame}
          label="CPU"
          format={percent}
          series={[{ label: 'CPU', values: of((p) => p.cpu_percent) }]}
        />
        <Chart
          {...frame}
          label="Memory"
          format={bytes}
          isBytes
          series={[{ label: 'Memory', values: of((p) => p.memory_bytes) }]}
        />
        {m.totals && (
          <>
            <Chart
              {...frame}
              label="Requests by status"
              format={rate}
              series={[
                { label: '2xx', values: of((p) => perSecond(p.status_2xx)) },
                { label: '3xx', values: of((p) => perSecond(p.status_3xx)) },
                { label: '4xx', values: of((p) => perSecond(p.status_4xx)), tone: 'warn' },
                { label: '5xx', values: of((p) => perSecond(p.status_5xx)), tone: 'bad' },
              ]}
            />
            <Chart
              {...frame}
              label="Response time"
              format={milliseconds}
              series={[
                { label: 'p50', values: of((p) => p.p50_ms) },
                { label: 'p95', values: of((p) => p.p95_ms) },
              ]}
            />
          </>
        )}
      </div>
      {!m.totals && (
        <Note>
          Requests aren’t measured. {e.server.name} keeps no access log, or its agent needs an
          update.
        </Note>
      )}
    </>
  )
}

function Tiles({ metrics: { latest, totals, range, points } }: { metrics: EnvironmentMetrics }) {
  const now = points.findLast((p) => p.requests_per_second !== null)?.requests_per_second ?? null
  const failed = totals && totals.requests > 0 ? (100 * totals.status_5xx) / totals.requests : 0
  return (
    <Stats>
      <StatTile label="CPU" value={latest ? percent(latest.cpu_percent) : '–'} hint="of one core" />
      <StatTile label="Memory" value={latest ? bytes(latest.memory_bytes) : '–'} hint="now" />
      {totals && (
        <>
          <StatTile label="Requests" value={number(totals.requests)} hint={`last ${range}`} />
          <StatTile label="Rate" value={now === null ? '–' : rate(now)} hint="latest" />
          <StatTile
            label="Errors"
            value={percent(failed)}
            hint={`${number(totals.status_5xx)} × 5xx`}
            tone={failed >= 1 ? 'bad' : undefined}
          />
          <StatTile
            label="p95"
            value={totals.p95_ms === null ? '–' : milliseconds(totals.p95_ms)}
            hint={totals.p50_ms === null ? 'no requests' : `p50 ${milliseconds(totals.p50_ms)}`}
          />
        </>
      )}
    </Stats>
  )
}
