// Rows that wrap and so differ in height, measured as they come into view. Loaded on demand, because the library is
// larger than the rest of the viewer.
import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useImperativeHandle, useLayoutEffect, useRef } from 'react'
import css from './log.module.css'
import { ROW_PX, type RowsProps, SPARE, useFollow } from './rows.tsx'

export function WrappedRows(props: RowsProps) {
  const { count, isFollowing, onView } = props
  const box = useRef<HTMLDivElement>(null)
  const reported = useFollow(props, box)
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: SPARE,
    initialOffset: (isFollowing ? count : (props.begin ?? 0)) * ROW_PX,
  })
  // by default a row that is measured above the first visible one moves the view, which is pinned to the end here
  virtual.shouldAdjustScrollPositionOnItemSizeChange = isFollowing ? () => false : undefined
  const items = virtual.getVirtualItems()
  const [from, to] = [items[0]?.index ?? 0, (items.at(-1)?.index ?? 0) + 1]
  const height = virtual.getTotalSize()
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new line, and each one measured, moves the end
  useLayoutEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [isFollowing, count, height])
  // the window or what is above the log changes its height
  useLayoutEffect(() => {
    const e = box.current
    if (!e || !isFollowing) return
    const observer = new ResizeObserver(() => {
      e.scrollTop = e.scrollHeight
    })
    observer.observe(e)
    return () => observer.disconnect()
  }, [isFollowing])
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when these rows appear
  useLayoutEffect(() => {
    if (props.begin !== undefined && !isFollowing) {
      virtual.scrollToIndex(props.begin, { align: 'start' })
    }
  }, [])
  const top = virtual.range?.startIndex ?? from
  useEffect(() => onView(from, to, top), [from, to, top, onView])
  useImperativeHandle(props.handle, () => ({
    show: (index) => virtual.scrollToIndex(index, { align: 'center' }),
    first() {
      const at = box.current?.scrollTop ?? 0
      return virtual.getVirtualItems().find((item) => item.start >= at - 1)?.index ?? 0
    },
    toEnd: () => virtual.scrollToIndex(Math.max(0, count - 1), { align: 'end' }),
    toStart: () => virtual.scrollToIndex(0),
    focus: () => box.current?.focus({ preventScroll: true }),
  }))
  return (
    <section
      ref={box}
      className={`${css.box} ${css.wrapped}`}
      aria-label={props.label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard has to reach it
      tabIndex={0}
      onScroll={reported}
    >
      {/* biome-ignore lint/a11y/useSemanticElements: of many thousands a few are in the document */}
      <div role="list" className={css.all} style={{ height }}>
        <div role="presentation" style={{ transform: `translateY(${items[0]?.start ?? 0}px)` }}>
          {items.map((item) => (
            <div
              key={item.key}
              data-index={item.index}
              ref={virtual.measureElement}
              role="presentation"
            >
              {props.row(item.index)}
            </div>
          ))}
        </div>
      </div>
    </section>
  )
}
