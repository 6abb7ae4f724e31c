// The rows of a runtime log that are in view. Heights are measured, because lines may wrap. Rows that load above leave the
// view where it is. Follow keeps the end in view until the reader scrolls up.
import { useVirtualizer } from '@tanstack/react-virtual'
import {
  type CSSProperties,
  type ReactNode,
  type RefObject,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
} from 'react'
import css from './runtime.module.css'
import type { RuntimeRow } from './store.ts'

const ROW_PX = 24
const SPARE = 12
/** Closer than this counts as the end. */
const END_PX = 40
/** Rows before either end at which more are loaded. */
const AHEAD = 30

export interface RuntimeRowsHandle {
  toEnd(): void
  toStart(): void
  focus(): void
}

interface RuntimeRowsProps {
  rows: readonly RuntimeRow[]
  isFollowing: boolean
  setFollowing(is: boolean): void
  isWrapped: boolean
  /** The row to show first. */
  startKey: number | undefined
  onNear(end: 'older' | 'newer'): void
  /** The first row in view. */
  onTop(row: RuntimeRow | undefined): void
  row(row: RuntimeRow): ReactNode
  /** Letters of the longest name of a service. */
  serviceChars: number
  label: string
  handle: RefObject<RuntimeRowsHandle | null>
}

export function RuntimeRows(props: RuntimeRowsProps) {
  const { rows, isFollowing, setFollowing, onNear, onTop, startKey } = props
  const box = useRef<HTMLDivElement>(null)
  const lastTop = useRef(0)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    getItemKey: (index) => rows[index]?.key ?? index,
    estimateSize: () => ROW_PX,
    overscan: SPARE,
  })
  const items = virtual.getVirtualItems()
  const height = virtual.getTotalSize()

  // rows that came above move the others; the one that was on top stays on top
  const anchor = useRef<{ key: number; by: number }>(undefined)
  const first = rows[0]?.key
  const knownFirst = useRef(first)
  useLayoutEffect(() => {
    const e = box.current
    const before = knownFirst.current
    knownFirst.current = first
    if (!e || first === undefined || before === first || before === undefined || isFollowing) return
    const at = anchor.current
    const index = at ? rows.findIndex(({ key }) => key === at.key) : -1
    const place = index >= 0 ? virtual.getOffsetForIndex(index, 'start')?.[0] : undefined
    if (at && place !== undefined) {
      e.scrollTop = place + at.by
      lastTop.current = e.scrollTop
    }
  }, [first, rows, virtual, isFollowing])

  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line, and each one measured, moves the end
  useLayoutEffect(() => {
    const e = box.current
    if (!isFollowing || !e) return
    e.scrollTop = e.scrollHeight
    lastTop.current = e.scrollTop
  }, [isFollowing, rows, height])

  const placed = useRef<number>(undefined)
  useEffect(() => {
    if (startKey === undefined || placed.current === startKey) return
    const index = rows.findIndex(({ key }) => key >= startKey)
    placed.current = startKey
    virtual.scrollToIndex(index < 0 ? rows.length - 1 : index, { align: 'center' })
  }, [startKey, rows, virtual])

  const [from, to] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0]
  useEffect(() => {
    if (from < AHEAD) onNear('older')
    if (to >= rows.length - AHEAD) onNear('newer')
  }, [from, to, rows.length, onNear])
  const top = rows[virtual.range?.startIndex ?? from]
  useEffect(() => onTop(top), [top, onTop])

  useImperativeHandle(props.handle, () => ({
    toEnd() {
      if (box.current) box.current.scrollTop = box.current.scrollHeight
    },
    toStart() {
      if (box.current) box.current.scrollTop = 0
    },
    focus: () => box.current?.focus({ preventScroll: true }),
  }))

  return (
    <section
      ref={box}
      className={`${css.box} ${props.isWrapped ? css.wrapped : ''}`}
      aria-label={props.label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard has to reach it
      tabIndex={0}
      onScroll={(event) => {
        const e = event.currentTarget
        const isUp = e.scrollTop < lastTop.current
        lastTop.current = e.scrollTop
        const item = virtual.getVirtualItemForOffset(e.scrollTop)
        const row = item && rows[item.index]
        anchor.current = row && { key: row.key, by: e.scrollTop - item.start }
        const isEnd = e.scrollHeight - e.scrollTop - e.clientHeight <= END_PX
        if (isEnd && !isUp && !isFollowing) setFollowing(true)
        else if (!isEnd && isUp && isFollowing) setFollowing(false)
      }}
    >
      {/* biome-ignore lint/a11y/useSemanticElements: of many thousands a few are in the document */}
      <div
        role="list"
        className={css.all}
        style={{ height, '--service': props.serviceChars } as CSSProperties}
      >
        <div role="presentation" style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
          {items.map((item) => {
            const row = rows[item.index]
            return (
              <div
                key={item.key}
                data-index={item.index}
                ref={virtual.measureElement}
                role="presentation"
              >
                {row && props.row(row)}
              </div>
            )
          })}
        </div>
      </div>
    </section>
  )
}
