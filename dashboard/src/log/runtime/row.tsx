// One row of a runtime log: a line of a service, a request, or a note. Text nodes only, and memoised, so that a selection
// survives while lines arrive.
import { statusClassOf } from '@berth/shared/log-lines'
import { memo } from 'react'
import { bytes } from '../../format.ts'
import { Content } from '../row.tsx'
import { isLine, isRequest, type RuntimeRecord } from './records.ts'
import css from './runtime.module.css'

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hourCycle: 'h23',
})
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })

/** Each service keeps its colour; there are six. */
function colourOf(service: string): string | undefined {
  let sum = 0
  for (const letter of service.replace(/\.\d+$/, '')) sum = (sum * 31 + letter.charCodeAt(0)) % 997
  return css[`c${sum % 6}`]
}

/** 340 µs, 12 ms, 1.24 s. */
export function shortTime(ms: number): string {
  if (ms < 1) return `${Math.round(ms * 1_000)} µs`
  if (ms < 1_000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`
  return `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`
}

interface RowProps {
  record: RuntimeRecord
  /** The text that was searched for; empty if none. */
  found: string
  /** The first one after the chosen time. */
  isStart: boolean
  /** Opens the log at this time. */
  onTime(t: string): void
}

function Time({ t, onTime }: { t: string; onTime(t: string): void }) {
  const date = new Date(t)
  return (
    <button
      type="button"
      className={css.time}
      title={`${exact.format(date)}. Show what was written around this time.`}
      tabIndex={-1}
      onClick={() => onTime(t)}
    >
      <time dateTime={t}>{clock.format(date)}</time>
    </button>
  )
}

export const RuntimeRowView = memo(function RuntimeRowView(props: RowProps) {
  const { record, found, onTime } = props
  const start = props.isStart ? css.start : ''
  if (isLine(record)) {
    const { level, service, t, text } = record
    return (
      // biome-ignore lint/a11y/useSemanticElements: a few of many thousands are in the document
      <div role="listitem" className={`${css.row} ${level ? (css[level] ?? '') : ''} ${start}`}>
        <Time t={t} onTime={onTime} />
        <span className={`${css.service} ${colourOf(service)}`} title={service}>
          {service}
        </span>
        {level && <span className="visually-hidden">{level}</span>}
        <span className={css.text}>
          <Content line={{ text }} found={found} span={undefined} />
        </span>
        {'\n'}
      </div>
    )
  }
  if (isRequest(record)) {
    const { status } = record
    return (
      // biome-ignore lint/a11y/useSemanticElements: a few of many thousands are in the document
      <div
        role="listitem"
        className={`${css.row} ${css[`s${statusClassOf(status) ?? ''}`] ?? ''} ${start}`}
      >
        <Time t={record.t} onTime={onTime} />
        <span className={css.status}>{status || '–'}</span>
        <span className={css.method}>{record.method}</span>
        <span className={css.path} title={`${record.host}${record.path}`}>
          <span className={css.host}>{record.host}</span>
          <Content line={{ text: record.path }} found={found} span={undefined} />
        </span>
        <span className={css.took}>{shortTime(record.duration_ms)}</span>
        <span className={css.size}>{bytes(record.size)}</span>
        <span className={css.client}>{record.client}</span>
        {'\n'}
      </div>
    )
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: a few of many thousands are in the document
    <div role="listitem" className={`${css.row} ${css.note}`}>
      {record.service}: lines from {record.days} are no longer stored.
    </div>
  )
})
