// berth metrics: processor, memory, requests and response times of an environment, now and in a range. --json has every
// point.
import { EnvironmentMetrics } from '@berth/shared/api'
import { findTarget } from '../../client/resolve.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { formatBytes } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'

const RANGES: readonly string[] = ['hour', 'day', 'week']

function parseMetrics({ flags }: Invocation): { range: string } {
  const range = flagText(flags, 'range') ?? 'hour'
  if (!RANGES.includes(range)) throw usage(`--range is hour, day or week, got '${range}'`)
  return { range }
}

const whole = new Intl.NumberFormat('en-US')

async function performMetrics({ range }: { range: string }, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const { environment } = await findTarget(api, context, 'read')
  const path = `/api/environments/${environment.id}/metrics`
  const { value, raw } = await api.get(path, EnvironmentMetrics, { query: { range } })
  const { latest, totals } = value
  const number = (n: number): string => (screen.human ? whole.format(n) : String(n))
  const time = (ms: number | null): string => (ms === null ? '' : `${number(ms)} ms`)
  const name = (word: string): string => (screen.human ? word : word.toLowerCase())
  const when = screen.human ? ` in the last ${range}` : ''
  await screen.printFields(raw, [
    [name('Processor'), latest ? `${latest.cpu_percent}%` : ''],
    [name('Memory'), latest ? formatBytes(latest.memory_bytes) : ''],
    [name('Requests'), totals ? `${number(totals.requests)}${when}` : ''],
    ...(['2xx', '3xx', '4xx', '5xx'] as const).map(
      (kind) => [kind, totals ? number(totals[`status_${kind}`]) : ''] as const,
    ),
    ['p50', time(totals?.p50_ms ?? null)],
    ['p95', time(totals?.p95_ms ?? null)],
    ...(latest?.services ?? []).map(
      (of) =>
        [
          name(`Service ${cleanText(of.name)}`),
          `${of.cpu_percent}%  ${formatBytes(of.memory_bytes)}`,
        ] as const,
    ),
  ])
  if (!totals) await screen.note('Requests are not measured: its server keeps no access log.')
  if (!latest) await screen.note('Its server has reported nothing in the last five minutes.')
  return EXIT.done
}

export const metrics = compose(parseMetrics, performMetrics)
