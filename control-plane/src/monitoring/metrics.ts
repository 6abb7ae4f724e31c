// The figures that monitoring reads at /metrics, in the format of Prometheus: counted in memory, except those of
// gauges.ts. Labels hold words of ours only, never names of people, projects or addresses, so their number is bounded.
import { VERSION } from '@berth/shared'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** Gauges of the library whose names are those of counters, which promtool refuses. */
const MISNAMED = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`)
const REQUEST_SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10]
const TASK_SECONDS = [1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600]
const LOG_SECONDS = [0.02, 0.1, 0.25, 1, 5, 30]

/** 200 → 2xx. */
const classOf = (status: number): string => `${Math.trunc(status / 100)}xx`

export class Metrics {
  readonly registry = new Registry()
  readonly #requests
  readonly #requestSeconds
  readonly #tasks
  readonly #taskSeconds
  readonly #phaseSeconds
  readonly #logBytes
  readonly #logSeconds

  constructor() {
    const registers = [this.registry]
    new Gauge({ name: 'berth_info', help: 'Its version', labelNames: ['version'], registers }).set(
      { version: VERSION },
      1,
    )
    this.#requests = new Counter({
      name: 'berth_http_requests_total',
      help: 'Requests by method, route and class of status',
      labelNames: ['method', 'route', 'status'],
      registers,
    })
    this.#requestSeconds = new Histogram({
      name: 'berth_http_request_seconds',
      help: 'From the first byte of a request to the last byte of its answer',
      labelNames: ['method'],
      buckets: REQUEST_SECONDS,
      registers,
    })
    this.#tasks = new Counter({
      name: 'berth_tasks_finished_total',
      help: 'Tasks that ended, by type (deploy, destroy, action, …), result, and the phase that failed',
      labelNames: ['type', 'status', 'phase'],
      registers,
    })
    this.#taskSeconds = new Histogram({
      name: 'berth_task_seconds',
      help: 'From the request of a task to its end, by type and result',
      labelNames: ['type', 'status'],
      buckets: TASK_SECONDS,
      registers,
    })
    this.#phaseSeconds = new Histogram({
      name: 'berth_phase_seconds',
      help: 'Time of one phase of a task that succeeded',
      labelNames: ['type', 'phase'],
      buckets: TASK_SECONDS,
      registers,
    })
    this.#logBytes = new Counter({
      name: 'berth_log_bytes_total',
      help: 'Bytes of task logs that were received',
      registers,
    })
    this.#logSeconds = new Histogram({
      name: 'berth_log_store_seconds',
      help: 'From the arrival of log lines to their being stored and acknowledged',
      buckets: LOG_SECONDS,
      registers,
    })
    collectDefaultMetrics({ register: this.registry })
    for (const name of MISNAMED) this.registry.removeSingleMetric(name)
  }

  /** `route` is a pattern of ours, or "none" for an unknown path. */
  request(method: string, route: string, status: number, seconds: number): void {
    this.#requests.inc({ method, route, status: classOf(status) })
    this.#requestSeconds.observe({ method }, seconds)
  }

  task(type: string, status: string, phase: string, seconds: number): void {
    this.#tasks.inc({ type, status, phase })
    this.#taskSeconds.observe({ type, status }, seconds)
  }

  phase(type: string, phase: string, seconds: number): void {
    this.#phaseSeconds.observe({ type, phase }, seconds)
  }

  log(bytes: number): void {
    this.#logBytes.inc(bytes)
  }

  logsStored(seconds: number): void {
    this.#logSeconds.observe(seconds)
  }
}
