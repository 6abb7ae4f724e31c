// Sends traces to a collector over OTLP/HTTP, off unless BERTH_TRACES_URL is set. The queue is bounded: what a collector
// does not take in time is dropped, and the log says so once. Only this file imports OpenTelemetry.
import { VERSION } from '@berth/shared'
import { type SpanContext, SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { TracesConfig } from '../config.ts'
import { TRACES } from '../limits/installation.ts'
import { type EndedRequest, type Span, type SpanPlace, spanOfRequest } from './spans.ts'

const context = ({ traceId, spanId }: SpanPlace): SpanContext => ({
  traceId,
  spanId,
  traceFlags: TraceFlags.SAMPLED,
})

const toTime = (ms: number): [number, number] => [Math.floor(ms / 1_000), (ms % 1_000) * 1_000_000]

export class Traces {
  readonly #processor: BatchSpanProcessor | undefined
  readonly #resource

  constructor(config: TracesConfig | undefined, installationId: string, log: Logger) {
    this.#resource = resourceFromAttributes({
      'service.name': 'berth',
      'service.version': VERSION,
      'service.instance.id': installationId,
    })
    if (!config) return
    this.#processor = new BatchSpanProcessor({
      exporter: tellFailures(
        new OTLPTraceExporter({ ...config, timeoutMillis: TRACES.exportMs }),
        log,
      ),
      maxQueueSize: TRACES.queue,
      maxExportBatchSize: TRACES.batch,
      exportTimeoutMillis: TRACES.exportMs,
    })
  }

  /** False: making spans would be wasted work. */
  get isOn(): boolean {
    return this.#processor !== undefined
  }

  request(ended: EndedRequest): void {
    if (this.isOn) this.record(spanOfRequest(ended))
  }

  record(span: Span): void {
    this.#processor?.onEnd(this.#toReadable(span))
  }

  /** Sends what waits. Failures are told in the log. */
  async flush(): Promise<void> {
    await this.#processor?.forceFlush().catch(() => {})
  }

  async close(): Promise<void> {
    await this.#processor?.shutdown().catch(() => {})
  }

  #toReadable(span: Span): ReadableSpan {
    const own = context(span)
    const { traceId, parentSpanId } = span
    return {
      name: span.name,
      kind: span.isRequest ? SpanKind.SERVER : SpanKind.INTERNAL,
      spanContext: () => own,
      ...(parentSpanId === null
        ? {}
        : { parentSpanContext: context({ traceId, spanId: parentSpanId }) }),
      startTime: toTime(span.startMs),
      endTime: toTime(span.endMs),
      duration: toTime(span.endMs - span.startMs),
      ended: true,
      status:
        span.failure === null
          ? { code: SpanStatusCode.UNSET }
          : { code: SpanStatusCode.ERROR, message: span.failure },
      attributes: span.attributes,
      links: span.link ? [{ context: context(span.link) }] : [],
      events: [],
      resource: this.#resource,
      instrumentationScope: { name: 'berth', version: VERSION },
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    }
  }
}

/** Tells once when traces begin to be lost, and once when they arrive again. */
function tellFailures(exporter: SpanExporter, log: Logger): SpanExporter {
  let isLost = false
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const failed = result.error !== undefined || result.code !== 0
        if (failed && !isLost) {
          log.warn({ err: result.error }, 'traces are lost: the collector does not take them')
        }
        if (!failed && isLost) log.info('the collector takes traces again')
        isLost = failed
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
  }
}
