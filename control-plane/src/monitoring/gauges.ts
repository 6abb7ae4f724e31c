// Figures that each request of /metrics reads from the database: queue, agents, certificates, streams.
import { Gauge } from 'prom-client'
import type { Context } from '../context.ts'
import {
  countAgents,
  countOpenTasks,
  findFirstCertificateEnd,
  findOldestQueued,
} from '../store/installation/gauges.ts'

type Values = [labels: Record<string, string>, value: number][]

/** If the database does not answer, the request fails, which monitoring notices. */
export function addGauges(ctx: Context): void {
  const { registry } = ctx.metrics
  const add = (name: string, help: string, label: string, read: () => Promise<Values>): void => {
    const labelNames = label === '' ? [] : [label]
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        const values = await read()
        this.reset()
        for (const [labels, value] of values) this.set(labels, value)
      },
    })
  }
  const { db, clock } = ctx
  add('berth_tasks_open', 'Tasks that wait or run', 'status', async () => {
    const counts = new Map((await countOpenTasks(db)).map((one) => [one.status, one.count]))
    return ['queued', 'running'].map((status) => [{ status }, counts.get(status) ?? 0])
  })
  add('berth_queue_oldest_seconds', 'Age of the oldest task that waits', '', async () => {
    const since = await findOldestQueued(db)
    return [[{}, since === undefined ? 0 : Math.max(0, clock.now() - since) / 1_000]]
  })
  add('berth_agents', 'Agents of servers, by state', 'state', async () => {
    const { all, online } = await countAgents(db)
    return [
      [{ state: 'online' }, online],
      [{ state: 'offline' }, all - online],
    ]
  })
  add(
    'berth_certificate_expiry_timestamp_seconds',
    'When the certificates end: of the authority, the first of the agents, and of HTTPS',
    'of',
    async () => {
      const first = await findFirstCertificateEnd(db)
      const authority = ctx.authority.certificate.notAfter.getTime()
      const values: Values = [[{ of: 'authority' }, authority / 1_000]]
      if (first !== undefined) values.push([{ of: 'agents' }, first / 1_000])
      const https = ctx.certificates?.until
      if (https !== undefined) values.push([{ of: 'https' }, https / 1_000])
      return values
    },
  )
  add(
    'berth_certificate_failures',
    'Failed tries in a row to get the certificate of HTTPS; none behind a proxy',
    '',
    async () => (ctx.certificates ? [[{}, ctx.certificates.status.failures]] : []),
  )
  add('berth_subscribers', 'Live streams of people and programs', '', async () => [
    [{}, ctx.feed.size],
  ])
  add('berth_subscriber_events_waiting', 'Events that wait for a reader', '', async () => [
    [{}, ctx.feed.waiting],
  ])
}
